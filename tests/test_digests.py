"""A thousand seeded fits learn what they learned: all estimators, units and laws of noise."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import skriemdp
from skriemdp._location_scale import search

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("digests", ROOT / "tools" / "digests.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def stored(tool):
    return json.loads(tool.STORED.read_text())


def test_some_fits_learn_what_they_learned_before(tool, stored):
    """A change that means to move numbers stores them anew: ``python tools/digests.py --write``."""
    assert tool.compare(list(stored)[::7]) == []


@pytest.mark.slow
def test_all_other_fits_learn_what_they_learned_before(tool, stored):
    names = list(stored)
    assert tool.compare([name for name in names if name not in set(names[::7])]) == []


def test_all_estimators_units_and_laws_are_among_them(tool, stored):
    assert len(stored) == 1000
    assert all(stored.values())
    kinds = {" ".join(name.split()[:-1]) for name in stored}
    for words in ("people", "present", "pure", "laplace", "gaussian", "sampled", "bars", "median"):
        assert any(words in kind.split() for kind in kinds), words
    for space in tool.SPACES:
        assert space == "shapes" or any(k.startswith(f"mean {space}") for k in kinds), space
    text = Path(tool.__file__).read_text()
    private = [n for n in skriemdp.__all__ if n.startswith("Private") and n != "PrivacyAccountant"]
    for name in private:
        assert f"s.{name}" in text, name


def test_what_moved_is_told_by_name(tool, stored):
    name = "mean euclidean 1"
    found = tool.result(*tool.fits()[name])
    assert tool.differences(stored[name], found) == []
    moved = found | {"mean_": found["mean_"] * (1.0 + 1e-5)}
    assert [line.split(":")[0] for line in tool.differences(stored[name], moved)] == ["mean_"]
    close = found | {"mean_": found["mean_"] * (1.0 + 1e-8)}
    assert tool.differences(stored[name], close) == []
    assert tool.exact(close) != tool.exact(found)
    del found["mean_"]
    assert tool.differences(stored[name], found) == ["mean_ is gone"]


@pytest.mark.parametrize("name", ["mean sphere 1", "linear log_loss 1", "geodesic affine 1"])
def test_a_changed_rule_is_seen(tool, stored, name, monkeypatch):
    clipped = search.LocationScaleSearch._moved

    def shorter(self, records, center, clip, mu, rng):
        return clipped(self, records, center, 0.98 * clip, mu, rng)

    monkeypatch.setattr(search.LocationScaleSearch, "_moved", shorter)
    assert len(tool.compare([name])) == 1


def test_records_are_the_same_on_all_machines(tool):
    """Integers, square roots and quotients: rounded alike by every processor."""
    assert tool.bell(1, 3).tolist() == [-0.8876953125, 1.4814453125, -1.9833984375]
    assert np.array_equal(2048.0 * tool.bell(3, 50, 2), np.rint(2048.0 * tool.bell(3, 50, 2)))
    for name, (geometry, make) in tool.SPACES.items():
        assert np.asarray(geometry.belongs(geometry.canonical(make(1)))).all(), name
