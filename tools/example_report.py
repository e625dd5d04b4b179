"""The auditor's page of a made-up clinic, docs/example-report.html.

    python tools/example_report.py

The clock and the ledger's key are fixed, so that the page changes only where the program does.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from unittest import mock

from skriemdp import PrivacyAccountant
from skriemdp.ledger import _chain as chain
from skriemdp.ledger import _storage as storage
from skriemdp.page import _facts as page
from skriemdp.page import gather, to_html
from skriemdp.privacy import GaussianEvent, PureEvent, gaussian_mu

TARGET = Path(__file__).parents[1] / "docs" / "example-report.html"
DELTA = 1e-6


def example() -> str:
    """The page."""
    days = itertools.count(2)
    clock = mock.patch.object(chain, "now", lambda: f"2026-03-{next(days):02d}T09:30:00.000+00:00")
    today = mock.patch.object(page, "now", lambda: "2026-03-31T09:30:00.000+00:00")
    key = mock.patch.object(storage.secrets, "token_hex", lambda size: "c" * 2 * size)
    with tempfile.TemporaryDirectory() as folder, clock, today, key:
        budget = PrivacyAccountant(epsilon=2.0, delta=DELTA, path=f"{folder}/clinic.ledger")
        sphere = {"manifold": "Sphere(dim=2, radius=1.0)", "n": 3000}
        for label, epsilon, facts in (
            ("PrivateFrechetMean", 0.5, sphere | {"center": [0.6, 0.0, 0.8], "radius": 0.5}),
            ("PrivateFrechetMean", 0.5, sphere | {"center": [0.6, 0.0, 0.8], "radius": 0.5}),
            ("PrivateMinimumDistanceToMean", 0.75, sphere | {"classes": ["ill", "well"]}),
            ("PrivatePrincipalEigenvector", 0.5, {"n": 3000, "d": 4, "row_norm": 1.0}),
        ):
            event = GaussianEvent(1.0 / gaussian_mu(epsilon, DELTA))
            budget.spend(event, label=label, facts=facts, at=(epsilon, DELTA))
        for site in ("north", "south"):
            budget.partition(site).spend(
                PureEvent(0.1),
                label="count of visits",
                at=(0.1, 0.0),
                facts={"sites": ["north", "south"]},
            )
        return to_html(gather(budget.path, author="A. Officer, data protection"))


if __name__ == "__main__":
    TARGET.write_text(example(), encoding="utf-8", newline="\n")
    print(f"wrote {TARGET}")
