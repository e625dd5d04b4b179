"""No pair of neighbours moves a release, or a fit, further than was charged."""

import pytest

from replay.pairs import PAIRS


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(p, marks=[pytest.mark.xfail(strict=True, reason=p.xfail)] if p.xfail else [])
        for p in PAIRS
    ],
    ids=lambda p: p.name,
)
def test_neighbours_replay(pair):
    tape = pair.run()
    share = tape.attained(pair.mine)
    assert share >= pair.attains, f"attains {share:.3f} of what is charged"
