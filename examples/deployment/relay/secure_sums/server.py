"""What the server runs: who takes part, what all have set alike, and words that it cannot read."""

import json

import numpy as np

from skriemdp import PrivateFrechetMean
from skriemdp.federated import Cohort, CohortLoop, sums_agreement
from skriemdp.federated.flower import Deployment, make_server_app

MEAN = PrivateFrechetMean("spd", center=np.eye(2), radius=1.0, epsilon=1.0)
MADE_UP = np.stack([np.eye(2), 2.0 * np.eye(2)])  # two matrices, which show shapes


def build_deployment(config):
    """The federation that the operator described."""
    with open(config["federation"]) as file:
        public = json.load(file)
    return Deployment(
        CohortLoop(Cohort.read(public["cohort"]), sums_agreement(MEAN, MADE_UP)),
        public["nodes"],
        None,
        public["fit_id"],
        public["checkpoint"],
        round_timeout=public["round_timeout"],
        round_grace=public["round_grace"],
        wait_for_nodes=public["wait_for_nodes"],
    )


app = make_server_app(build_deployment)
