"""A secure sum on this machine: three hospitals with one noise together, over Flower.

    python examples/deployment/secure_sum.py

makes a key for each hospital and the cohort file of all, starts each hospital's agent in a process
of its own and Flower's server and nodes beside them, which only hand on bytes, and prints the
private mean.  `--kill NAME` ends a hospital's agent between the two messages, when it said that it
takes part and has not added: the others have paid, and a second attempt goes without it.
`--restart` ends the server at the same time and starts it again: it finishes the same attempt.
`--logs DIR` keeps what every process said, however the run ends.
Needs ``pip install 'skriemdp[flower,secure]'``.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from run import HOSPITALS, Federation, free_ports

HERE = Path(__file__).parent


class SecureSum(Federation):
    """As the other example; beside every node its hospital's agent, whose code no server sends."""

    app = HERE / "relay"

    def __enter__(self):
        super().__enter__()
        self.agent_ports = dict(zip(HOSPITALS, free_ports(len(HOSPITALS)), strict=True))
        self.make_cohort()
        return self

    def make_cohort(self):
        """A key for each hospital; what all say of theirs becomes the cohort file."""

        def say(*arguments):
            command = [sys.executable, "-m", "skriemdp", *map(str, arguments)]
            return subprocess.run(command, check=True, capture_output=True, text=True).stdout

        files = [self.folder / name / "identity.key" for name in HOSPITALS]
        with ThreadPoolExecutor(len(files)) as pool:
            keys = pool.map(lambda file: say("identity", file).strip(), files)
        members = [f"{name}={key}" for name, key in zip(HOSPITALS, keys, strict=True)]
        # People take this file from one to the other and compare its last line.
        print(say("cohort", self.folder / "cohort.json", *members), end="", flush=True)
        for name in HOSPITALS:
            shutil.copy(self.folder / "cohort.json", self.folder / name)

    def start_agent(self, name):
        command = [HERE / "hospital.py", name, self.folder / name, self.agent_ports[name]]
        self._start(f"{name}-agent", sys.executable, *map(str, command), home=name)

    def node_config(self, name):
        return f"agent-port={self.agent_ports[name]}"

    def facts(self):
        return {"cohort": str(self.folder / "cohort.json")}


def is_listed(state):
    """Whether all who take part are known, and have not been asked to add."""
    return bool(state.get("attempts"))


def is_over(state):
    """Whether all of a list have added."""
    attempts = state.get("attempts")
    return bool(attempts) and len(attempts[-1]["words"]) == len(attempts[-1]["list"])


def run(folder, kill=None, restart=False, **settings):
    """One secure sum from start to end; the final checkpoint is in `folder`."""
    with SecureSum(folder, **settings) as federation:
        federation.start_server()
        nodes = federation.register()
        federation.describe(nodes)
        for name in HOSPITALS:
            federation.start_agent(name)
            federation.start_node(name)
        federation.submit()
        if kill or restart:
            federation.wait_until(is_listed)
        if kill:
            federation.stop(f"{kill}-agent", signal.SIGKILL)
        if restart:
            federation.stop("server", signal.SIGKILL)
            federation.start_server()
            federation.submit()
        return federation.wait_until(is_over)


def learned(folder):
    """What the operator learns from the checkpoint of a sum that is over."""
    sys.path.insert(0, str(HERE / "relay"))
    from secure_sums.server import MADE_UP, MEAN

    from skriemdp.federated import (
        Checkpoint,
        Cohort,
        CohortLoop,
        InProcessTransport,
        learn_from_sums,
        sums_agreement,
    )

    loop = CohortLoop(Cohort.read(folder / "cohort.json"), sums_agreement(MEAN, MADE_UP))
    kept = Checkpoint(folder / "checkpoint.json")
    uploads, _ = loop.run(InProcessTransport({}), None, "demonstration", kept)
    return uploads, learn_from_sums(MEAN, uploads, None, MADE_UP)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kill", choices=HOSPITALS, help="end this agent between the messages")
    parser.add_argument("--restart", action="store_true", help="restart the server between them")
    parser.add_argument("--logs", metavar="DIR", help="keep the logs of all processes there")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds without progress")
    parser.add_argument("--folder", help="where files are kept; a temporary folder by default")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments.folder or temporary).resolve()
        logs = arguments.logs and Path(arguments.logs).resolve()
        began = time.monotonic()
        run(folder, arguments.kill, arguments.restart, logs=logs, timeout=arguments.timeout)
        uploads, model = learned(folder)
        spent = model.privacy_spent_
        print(f"sum of {', '.join(uploads.clients)}, attempts: {len(uploads.attempts)}")
        print("private mean:", model.mean_.tolist())
        print(f"epsilon {spent.epsilon:.3f}, {spent.public['holds']}")
        print(f"epsilon {spent.epsilon_alone:.3f} if all others work together")
        print(f"{time.monotonic() - began:.0f} s")
        from skriemdp import PrivacyAccountant

        for name in HOSPITALS:
            path = folder / name / "privacy.ledger"
            if path.exists():
                print(f"{name}: {PrivacyAccountant(path=path).spent}")


if __name__ == "__main__":
    main()
