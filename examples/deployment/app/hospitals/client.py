"""What a hospital runs: its records, its noise, its limits, its books.

Everything is read from the node's own configuration (``flower-supernode --node-config``).
"""

import math
from pathlib import Path

import numpy as np

from skriemdp import PrivacyAccountant
from skriemdp._descent.problem import FrechetProblem
from skriemdp.datasets import make_cloud
from skriemdp.federated import Agent, AnswerBook, LocalSettings
from skriemdp.federated.flower import make_client_app
from skriemdp.geometry import SPD, GeodesicBall

BALL = GeodesicBall(SPD(2), None, 1.0)
SETTINGS = LocalSettings("rsgd", 1, 1.0, 1.0, math.inf)
NOISE_MULTIPLIER = 20.0


def records(seed):
    """Stands for reading this hospital's own files."""
    rng = np.random.default_rng(seed)
    return make_cloud(BALL.geometry, 200, offset=0.4, spread=0.3, rng=rng)


def problem(seed):
    """The hospital's Fréchet problem; records outside the public ball are projected on it."""
    return FrechetProblem.from_records(BALL, records(seed))[0]


def build_agent(config):
    """This node's agent."""
    state = Path(config["state-dir"])
    return Agent(
        config["hospital"],
        problem(config["data-seed"]),
        SETTINGS,
        NOISE_MULTIPLIER,
        BALL,
        accountant=PrivacyAccountant(config["epsilon"], path=str(state / "privacy.ledger")),
        book=AnswerBook(state / "answers.db"),
    )


app = make_client_app(build_agent)
