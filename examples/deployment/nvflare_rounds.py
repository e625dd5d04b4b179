"""Three sites in NVFlare's simulator, each with a ledger of its own that outlasts the job.

    pip install 'skriemdp[nvflare]'
    python examples/deployment/nvflare_rounds.py [--rounds 4] [--ceiling 2.0] [--workspace DIR]

Run it twice with one ``--workspace``: the second job is a restart, and sites refuse the round that
would pass their ceilings.  In a deployment the filter stands in a site's own
``local/privacy.json``, where no job can leave it out; the simulator takes it from the job.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from nvflare.app_common.aggregators.intime_accumulate_model_aggregator import (
    InTimeAccumulateWeightedAggregator,
)
from nvflare.app_common.np.np_model_persistor import NPModelPersistor
from nvflare.app_common.shareablegenerators.full_model_shareable_generator import (
    FullModelShareableGenerator,
)
from nvflare.app_common.workflows.scatter_and_gather import ScatterAndGather
from nvflare.job_config.api import FedJob
from nvflare.job_config.defs import FilterType
from nvflare_site import TowardsTheMean

from skriemdp import PrivacyAccountant
from skriemdp.federated.nvflare import NoisyUpdates

SITES = ("site-1", "site-2", "site-3")


def make_job(folder, rounds, ceiling, round_epsilon=1.0):
    job = FedJob("rounds", min_clients=len(SITES))
    parts = {
        "persistor_id": NPModelPersistor(model=[[0.0, 0.0, 0.0]]),
        "shareable_generator_id": FullModelShareableGenerator(),
        "aggregator_id": InTimeAccumulateWeightedAggregator(expected_data_kind="WEIGHT_DIFF"),
    }
    ids = {name: job.to_server(part, id=name.removesuffix("_id")) for name, part in parts.items()}
    flow = ScatterAndGather(
        min_clients=len(SITES), num_rounds=rounds, wait_time_after_min_received=0, **ids
    )
    job.to_server(flow)
    for site in SITES:
        door = NoisyUpdates(
            ledger=str(folder / f"{site}.ledger"),
            epsilon=ceiling,
            delta=1e-5,
            round_epsilon=round_epsilon,
            clip_norm=1.0,
        )
        job.to(TowardsTheMean(), site)
        job.to(door, site, filter_type=FilterType.TASK_RESULT, tasks=["train"])
    return job


def spent(folder):
    """Rounds in each site's ledger, and what they cost."""
    found = {}
    for site in SITES:
        path = folder / f"{site}.ledger"
        budget = PrivacyAccountant(path=path) if path.exists() else PrivacyAccountant()
        found[site] = len(budget.history), budget.spent.epsilon
    return found


def run(folder, rounds, ceiling):
    folder.mkdir(parents=True, exist_ok=True)
    make_job(folder, rounds, ceiling).simulator_run(
        str(folder / "simulator"), threads=len(SITES), log_config="concise"
    )
    return spent(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--ceiling", type=float, default=2.0)
    parser.add_argument("--workspace", type=Path, default=None)
    args = parser.parse_args()
    folder = args.workspace or Path(tempfile.mkdtemp())
    for site, (rounds, epsilon) in run(folder, args.rounds, args.ceiling).items():
        print(f"{site}: {rounds} rounds charged, epsilon {epsilon:.3f} of {args.ceiling:g}")
    for file in sorted(folder.rglob("server.npy")):
        print("model:", np.load(file).round(2))


if __name__ == "__main__":
    main()
