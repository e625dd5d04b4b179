"""The sampler of discrete noise, fed with scripted integers: each comparison and each throw.

Samples would have to be 10^9 to see a coin that is thrown three times and no more.  Here the
integers that a draw asks for are written down, and what comes of them is known.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from skriemdp._mechanisms import discrete_gaussian as sampler
from skriemdp._mechanisms.discrete_gaussian import _accepted, _cells, running_sums

SCALE = 64 * 1000  # cells of 1000 integers
WIDTH, REACH = 1000, 2 * 64 * SCALE


class Script:
    """Stands for a generator: ``integers(high, size=...)`` gives what is written, in order.

    Each line is ``(high, values)``: what must be asked for, and the answer.
    """

    def __init__(self, *lines):
        self.lines = list(lines)

    def integers(self, high, size=None, dtype=None):
        expected, values = self.lines.pop(0)
        assert high == expected
        values = np.asarray(values, dtype=dtype or np.int64)
        return values.reshape(() if size is None else size)


def word(cell_bits, negative=0):
    return (cell_bits << 1) | negative


def of_cell(cell):
    """63 bits that choose a cell of the 64 in a scale, and no neighbour."""
    low, _ = running_sums(64, 63)
    below = low[cell - 1] if cell else 0
    return (below + low[cell]) // 2


def throws(cell, j, falls, negative=0):
    """What is accepted where the coin falls so many times: ``[x]``, or nothing."""
    start, x = WIDTH * cell, WIDTH * cell + j
    lines = [(2**64, [word(of_cell(cell), negative)]), (WIDTH, [j])]
    yes, no = (0, 0, 0), (REACH - 1, WIDTH - 1, 1)
    lines.append((REACH, [yes[0] if falls >= 1 else no[0]]))
    lines.append((WIDTH, [0] if falls >= 1 else []))
    for i in itertools.count(2):
        if falls < i - 1:
            break
        fell = falls >= i
        lines += [(REACH, [0]), (WIDTH, [0]), (i, [0 if fell else 1])]
    script = Script(*lines)
    found = _accepted(SCALE, script, 1)
    assert not script.lines and start + j == x
    return found.tolist()


@pytest.mark.parametrize("negative", [0, 1])
@pytest.mark.parametrize("falls", range(40))
def test_a_draw_is_kept_where_the_first_failure_is_an_odd_throw(falls, negative):
    """``1 - g + g^2/2 - ...``: kept after an even number of falls, for as long as it falls."""
    x = 3 * WIDTH + 7
    assert throws(3, 7, falls, negative) == ([] if falls % 2 else [-x if negative else x])


@pytest.mark.parametrize(("cell", "j"), [(0, 0), (0, 1), (0, 999), (5, 0), (5, 1), (200, 999)])
def test_the_first_throw_compares_as_it_should(cell, j):
    """It falls with probability ``(2 w k + j) / reach * j / w``, to the last integer."""
    whole = 2 * WIDTH * cell + j
    for u, v in itertools.product((0, whole - 1, whole, REACH - 1), (0, j - 1, j, WIDTH - 1)):
        if u < 0 or v < 0:
            continue
        first = u < whole
        lines = [(2**64, [word(of_cell(cell))]), (WIDTH, [j]), (REACH, [u])]
        lines.append((WIDTH, [v] if first else []))
        fell = first and v < j
        if fell:
            lines += [(REACH, [REACH - 1]), (WIDTH, [0]), (2, [0])]
        script = Script(*lines)
        found = _accepted(SCALE, script, 1).tolist()
        assert found == ([] if fell else [WIDTH * cell + j]) and not script.lines


@pytest.mark.parametrize("throw", [2, 3, 4, 9])
def test_later_throws_need_all_three_of_their_coins(throw):
    cell, j = 4, 30
    whole = 2 * WIDTH * cell + j
    for u, v, t in itertools.product((whole - 1, whole), (j - 1, j), (0, 1, throw - 1)):
        lines = [(2**64, [word(of_cell(cell))]), (WIDTH, [j]), (REACH, [0]), (WIDTH, [0])]
        for i in range(2, throw):
            lines += [(REACH, [0]), (WIDTH, [0]), (i, [0])]
        lines += [(REACH, [u]), (WIDTH, [v]), (throw, [t])]
        fell = u < whole and v < j and t == 0
        if fell:
            lines += [(REACH, [REACH - 1]), (WIDTH, [0]), (throw + 1, [0])]
        script = Script(*lines)
        kept = bool(_accepted(SCALE, script, 1).size)
        falls = throw if fell else throw - 1
        assert kept == (falls % 2 == 0) and not script.lines


def test_draws_side_by_side_keep_their_own_coins():
    """Those that are decided drop out; the others go on with theirs."""
    cells, js = [1, 2, 3, 4], [10, 20, 30, 40]
    lines = [
        (2**64, [word(of_cell(k)) for k in cells]),
        (WIDTH, js),
        (REACH, [REACH - 1, 0, 0, 0]),  # the first is decided: kept
        (WIDTH, [0, 0, 0]),
        (REACH, [REACH - 1, 0, 0]),  # the second: fell once, lost
        (WIDTH, [0, 0, 0]),
        (2, [0, 0, 0]),
        (REACH, [REACH - 1, 0]),  # the third: fell twice, kept
        (WIDTH, [0, 0]),
        (3, [0, 0]),
        (REACH, [REACH - 1]),  # the fourth: fell three times, lost
        (WIDTH, [0]),
        (4, [0]),
    ]
    script = Script(*lines)
    assert _accepted(SCALE, script, 4).tolist() == [1010, 3030] and not script.lines


def test_the_law_of_the_coins_is_that_of_their_throws():
    """Of all scripts up to 25 falls, weighed by their chances, in fractions: ``exp(-g)``."""
    cell, j = 100, 997
    g = Fraction(2 * WIDTH * cell + j, REACH) * Fraction(j, WIDTH)
    kept, reached = Fraction(0), Fraction(1)
    for falls in range(25):
        stops = reached * (1 - g / (falls + 1))
        kept += stops * bool(throws(cell, j, falls))
        reached *= g / (falls + 1)
    assert abs(float(kept) - math.exp(-float(g))) < 1e-15
    assert float(g) == pytest.approx(j * (2 * WIDTH * cell + j) / (2 * SCALE**2), rel=1e-15)


def test_zero_comes_under_one_sign_only():
    for scale in (1, 64):
        lines = [(2**64, [word(0, negative)]) for negative in (0, 1)]
        found = [_accepted(scale, Script(line), 1).tolist() for line in lines]
        assert found == [[0], []]


@pytest.mark.parametrize("per_scale", [1, 2, 64])
def test_a_cell_is_where_the_uniform_number_lies(per_scale):
    """Just below, at and just above each sum's first 63 bits; at them, more bits decide."""
    low, high = running_sums(per_scale, 63)
    more = running_sums(per_scale, 127)
    assert low == high
    for k in range(min(len(low) - 1, 200)):
        if low[k] == low[k + 1] or (k and low[k] - low[k - 1] < 4):
            break
        below, above = (
            _cells(np.array([u]), per_scale, Script())[0] for u in (low[k] - 1, low[k] + 1)
        )
        assert below == k
        assert above == k + 1 or low[k] + 1 >= low[k + 1]
        rest = more[0][k] - (low[k] << 64)
        for bits, cell in ((rest - 1, k), (rest + 1, k + 1)):
            if 0 <= bits < 2**64:
                script = Script((2**64, np.uint64(bits)))
                assert _cells(np.array([low[k]]), per_scale, script)[0] == cell
                assert not script.lines


def test_where_127_bits_are_a_sums_too_more_are_drawn():
    low, _ = running_sums(64, 63)
    more, _ = running_sums(64, 127)
    most, _ = running_sums(64, 191)
    first = more[5] - (low[5] << 64)
    for step, cell in ((-1, 5), (1, 6)):
        second = most[5] - (more[5] << 64) + step
        script = Script((2**64, np.uint64(first)), (2**64, np.uint64(second)))
        assert _cells(np.array([low[5]]), 64, script)[0] == cell and not script.lines


def test_the_script_is_of_this_sampler():
    assert sampler._CELLS == 64 and sampler._BITS == 63 and sampler._MORE_BITS == 64
