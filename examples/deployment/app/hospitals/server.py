"""What the server runs: public facts from the operator's file, and points that are private."""

import json

from hospitals.client import BALL
from skriemdp.federated import ServerLoop
from skriemdp.federated.flower import Deployment, make_server_app


def build_deployment(config):
    """The federation that the operator described."""
    with open(config["federation"]) as file:
        public = json.load(file)
    loop = ServerLoop(
        BALL.geometry,
        tuple(tuple(row) for row in public["schedule"]),
        public["n_records"],
        domain=BALL,
    )
    return Deployment(
        loop,
        public["nodes"],
        BALL.center,
        public["fit_id"],
        public["checkpoint"],
        round_timeout=public["round_timeout"],
        round_grace=public["round_grace"],
        wait_for_nodes=public["wait_for_nodes"],
    )


app = make_server_app(build_deployment)
