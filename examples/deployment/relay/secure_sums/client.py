"""All that Flower runs at a hospital: bytes to the agent on the own machine, and back."""

from skriemdp.federated.flower import make_relay_app

app = make_relay_app()
