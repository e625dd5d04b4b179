"""No pair of neighbours moves a release, or a fit, further than was charged."""

import pytest

from replay.faults import replayed
from replay.pairs import PAIRS


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(
            p,
            marks=[pytest.mark.xfail(strict=True, reason=p.xfail)] * bool(p.xfail)
            + [pytest.mark.slow] * p.slow,
        )
        for p in PAIRS
    ],
    ids=lambda p: p.name,
)
def test_neighbours_replay(pair):
    tape, _ = replayed(pair)
    share = tape.attained(pair.mine)
    assert share >= pair.attains, f"attains {share:.3f} of what is charged"


def test_names_of_pairs_are_distinct():
    assert len({pair.name for pair in PAIRS}) == len(PAIRS)
