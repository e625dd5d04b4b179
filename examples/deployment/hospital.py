"""What a hospital runs by itself in a secure sum: its records, noise, ledger, book and key.

    python hospital.py NAME FOLDER PORT

answers on a port of the own machine.  Run it as a user of its own, who alone can read FOLDER, with
this file and the package installed by the hospital's own people: no server chooses code here.
"""

import sys
from pathlib import Path

import numpy as np

from skriemdp import PrivacyAccountant, PrivateFrechetMean
from skriemdp.datasets import make_cloud
from skriemdp.federated import AnswerBook, Cohort, Identity, LocalAgent, sums_agent
from skriemdp.geometry import SPD

# As at all hospitals and at the server; one that has set something else is left out, and told.
MEAN = PrivateFrechetMean("spd", center=np.eye(2), radius=1.0, epsilon=1.0)


def records(name):
    """Stands for reading this hospital's own files."""
    rng = np.random.default_rng(list(name.encode()))
    return make_cloud(SPD(2), 200, offset=0.4, spread=0.3, rng=rng)


def build_agent(name, folder):
    """This hospital's agent; its ceiling has room for two attempts."""
    folder = Path(folder)
    return sums_agent(
        MEAN,
        records(name),
        client=name,
        accountant=PrivacyAccountant(2.0, path=folder / "privacy.ledger"),
        book=AnswerBook(folder / "answers.db"),
        cohort=Cohort.read(folder / "cohort.json"),
        identity=Identity.read(folder / "identity.key"),
    )


if __name__ == "__main__":
    name, folder, port = sys.argv[1:]
    with LocalAgent(build_agent(name, folder), int(port)) as running:
        running.serve_forever()
