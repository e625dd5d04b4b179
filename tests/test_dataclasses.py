"""Dataclasses without compiled methods behave as the standard ones do."""

import dataclasses
import importlib.util
import inspect
import pickle
from pathlib import Path

import pytest

from skriemdp._dataclasses import dataclass
from skriemdp.mechanisms.counts import GaussianCount

PACKAGE = Path(importlib.util.find_spec("skriemdp").origin).parent


def made(decorator, **settings):
    """A class and one that derives from it."""

    class Base:
        size: int
        parts: list = dataclasses.field(default_factory=list)
        found: float = dataclasses.field(init=False, repr=False, compare=False)
        name: str = "x"

        def __post_init__(self):
            self.__dict__["found"] = 2.0 * self.size

    Base.__qualname__ = Base.__name__
    base = decorator(**settings)(Base)

    class Derived(base):
        more: float = 1.0
        size: int = 3

        def __repr__(self):
            return "derived"

    Derived.__qualname__ = Derived.__name__
    return base, decorator(**settings)(Derived)


def outcome(call):
    try:
        return call()
    except (TypeError, AttributeError) as error:
        return type(error)


CALLS = {
    "positions": ((1, [2]), {}),
    "names": ((), {"size": 1, "name": "y"}),
    "too few": ((), {"name": "y"}),
    "too many": ((1, [2], "y", 2.0, 5), {}),
    "twice": ((1,), {"size": 1}),
    "unknown": ((1,), {"found": 1.0}),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("settings", [{"frozen": True}, {"frozen": True, "eq": False}, {}])
def test_as_the_standard_decorator(settings, call):
    args, kwargs = CALLS[call]
    both = made(dataclass, **settings), made(dataclasses.dataclass, **settings)
    for ours, theirs in zip(*both, strict=True):
        told = []
        for kind in (ours, theirs):
            one = outcome(lambda kind=kind: kind(*args, **kwargs))
            seen = [list(inspect.signature(kind).parameters), kind.__match_args__]
            if isinstance(one, kind):
                two = dataclasses.replace(one)
                seen += [list(vars(one).items()), repr(one), one == two, one != two, one == 3]
                seen += [dataclasses.asdict(one), one.parts is kind(*args, **kwargs).parts]
                seen += [outcome(lambda one=one: setattr(one, "name", "z")), one.name]
                seen += [outcome(lambda one=one: delattr(one, "name"))]
                seen += [outcome(lambda one=one: type(hash(one)))]
            else:
                seen.append(one)
            told.append(seen)
        assert told[0] == told[1]


def test_equal_objects_have_equal_hashes_and_are_pickled():
    one, two = GaussianCount(2.0), pickle.loads(pickle.dumps(GaussianCount(2.0)))
    assert one == two and hash(one) == hash(two) and one != GaussianCount(3.0)
    with pytest.raises(TypeError, match="GaussianCount: .*'sigma'"):
        GaussianCount(2.0, sigma=2.0)


def test_no_module_compiles_its_dataclasses():
    own = PACKAGE / "_dataclasses.py"
    for path in PACKAGE.rglob("*.py"):
        if path != own:
            assert "dataclasses.dataclass" not in path.read_text(), path
            assert "from dataclasses" not in path.read_text(), path


def test_an_instance_takes_what_its_call_takes():
    @dataclass(frozen=True)
    class Cost:
        weight: float

        def __call__(self, point, x, y):
            return self.weight

    assert list(inspect.signature(Cost).parameters) == ["weight"]
    assert list(inspect.signature(Cost(2.0)).parameters) == ["point", "x", "y"]
