"""Who takes part in a secure sum, what must be set alike, and masks that cancel."""

import dataclasses
import inspect
import json
import os
import types

import numpy as np
import pytest

from skriemdp.federated import _masks as masks
from skriemdp.federated._agreement import Agreement, canonical
from skriemdp.federated._attendance import Attempt
from skriemdp.federated._cohort import Cohort, Identity
from skriemdp.geometry import AffineInvariantSPD, Euclidean, GeodesicBall, Product, Sphere
from skriemdp.page._command import main

pytest.importorskip("cryptography")

NAMES = ("east", "north", "south", "west")
IDENTITIES = {name: Identity(bytes([k]) * 32) for k, name in enumerate(NAMES)}
KEYS = {name: identity.public for name, identity in IDENTITIES.items()}


def planted(module, old, new):
    """The module with a fault in it: `old` stands there once."""
    source = inspect.getsource(module)
    assert source.count(old) == 1
    faulty = types.ModuleType(module.__name__)
    exec(compile(source.replace(old, new), module.__name__, "exec"), faulty.__dict__)
    return faulty


# -- identities and cohorts ----------------------------------------------------------------------


def test_an_identity_lasts_and_is_its_owners(tmp_path):
    made = Identity.make(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert Identity.read(tmp_path / "key").public == made.public
    assert made.secret.hex() not in repr(made)
    with pytest.raises(FileExistsError):
        Identity.make(tmp_path / "key")
    os.chmod(tmp_path / "key", 0o640)
    with pytest.raises(ValueError, match="chmod 600"):
        Identity.read(tmp_path / "key")


@pytest.mark.parametrize("text", ["", "00" * 31, "00" * 33, "0g" * 32, "AA" * 32])
def test_other_files_are_no_identity(tmp_path, text):
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ValueError, match="holds no identity"):
        Identity.read(path)


def test_a_cohort_lasts_and_has_one_digest(tmp_path):
    cohort = Cohort(KEYS, 2)
    cohort.write(tmp_path / "cohort")
    again = Cohort.read(tmp_path / "cohort")
    assert again.digest == cohort.digest == Cohort(dict(reversed(KEYS.items())), 2).digest
    assert cohort.fingerprint.replace(" ", "") == cohort.digest.hex()
    others = [
        Cohort(KEYS, 1),
        Cohort({name: KEYS[name] for name in NAMES[:3]}, 2),
        Cohort(KEYS | {"west": Identity(bytes([9]) * 32).public}, 2),
        Cohort({"easter" if name == "east" else name: key for name, key in KEYS.items()}, 2),
    ]
    assert len({other.digest for other in others} | {cohort.digest}) == 5


@pytest.mark.parametrize(
    "members, colluding, error, words",
    [
        ({}, 1, ValueError, "2 to"),
        ({"east": KEYS["east"]}, 1, ValueError, "2 to"),
        (KEYS | {"west": KEYS["east"]}, 1, ValueError, "same public key"),
        (KEYS | {"Mitte": bytes(32)}, 1, ValueError, "characters out of"),
        (KEYS | {"mitté": bytes(32)}, 1, ValueError, "characters out of"),
        (KEYS | {"": bytes(32)}, 1, ValueError, "characters out of"),
        (KEYS | {"a" * 65: bytes(32)}, 1, ValueError, "characters out of"),
        (KEYS | {"mid\n": bytes(32)}, 1, ValueError, "characters out of"),
        (KEYS | {"mid": bytes(31)}, 1, ValueError, "32 bytes"),
        (KEYS | {"mid": "0" * 32}, 1, ValueError, "32 bytes"),
        (KEYS | {"mid": bytearray(32)}, 1, ValueError, "32 bytes"),
        (list(KEYS), 1, TypeError, "dict"),
        (KEYS, 0, ValueError, ">= 1"),
        (KEYS, -1, ValueError, ">= 1"),
        (KEYS, True, TypeError, "integer"),
        (KEYS, 1.0, TypeError, "integer"),
        (KEYS, 4, ValueError, "leaves nobody"),
    ],
)
def test_cohorts_that_protect_nobody_are_refused(members, colluding, error, words):
    with pytest.raises(error, match=words):
        Cohort(members, colluding)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"colluding": 1}',
        '{"members": {}, "colluding": 1, "more": 2}',
        '{"members": {"a": "zz"}, "colluding": 1}',
        # The same name with two keys: a reader of JSON would keep the last in silence.
        json.dumps({"colluding": 1, "members": {n: KEYS[n].hex() for n in NAMES}})[:-2]
        + f', "east": "{"11" * 32}"}}}}',
    ],
)
def test_files_that_are_no_cohort(tmp_path, text):
    (tmp_path / "cohort").write_text(text)
    with pytest.raises(ValueError):
        Cohort.read(tmp_path / "cohort")


def test_keys_and_cohorts_are_made_on_the_command_line(tmp_path, capsys):
    """A hospital writes no Python to make its key, or to see the fingerprint of its cohort."""

    def said(*arguments, status=0):
        assert main([str(argument) for argument in arguments]) == status
        return capsys.readouterr().out if status == 0 else capsys.readouterr().err

    lines = {name: said("identity", tmp_path / name) for name in NAMES[:3]}
    assert said("identity", tmp_path / "east") == lines["east"]  # the same file, the same key
    keys = {name: Identity.read(tmp_path / name).public for name in lines}
    assert lines == {name: key.hex() + "\n" for name, key in keys.items()}
    members, path = [f"{name}={key.hex()}" for name, key in keys.items()], tmp_path / "cohort"
    said("cohort", tmp_path / "one", members[0], status=2)
    made = said("cohort", path, *members, "--colluding", 2)
    assert Cohort.read(path).members == keys and Cohort.read(path).colluding == 2
    assert made == said("cohort", path) and Cohort.read(path).fingerprint in made
    assert "File exists" in said("cohort", path, *members, status=2)
    new = tmp_path / "new"
    for wrong in (["east"], ["east=00"], [members[0].upper()], [members[0], members[0]]):
        assert said("cohort", new, members[1], *wrong, status=2)
    assert "for a new cohort" in said("cohort", path, "--colluding", 1, status=2)
    assert ">= 1" in said("cohort", new, *members, "--colluding", 0, status=2)
    assert "No such file" in said("cohort", new, status=2)
    (tmp_path / "east").chmod(0o640)
    assert "chmod 600" in said("identity", tmp_path / "east", status=2)
    assert not new.exists()


def test_signatures_are_of_one_client_and_one_message():
    cohort, message = Cohort(KEYS), b"message"
    signature = IDENTITIES["east"].sign(message)
    assert cohort.signed("east", signature, message)
    assert not cohort.signed("west", signature, message)
    assert not cohort.signed("east", signature, b"another")
    assert not cohort.signed("east", signature[:-1] + b"\0", message)


# -- what must be set alike ------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Settings:
    radius: float


def test_equal_settings_have_equal_bytes():
    assert canonical(np.arange(6.0)) == canonical(np.arange(6, dtype=np.float32))
    assert canonical(np.arange(6.0)[::-1]) == canonical(np.arange(6.0)[::-1].copy())
    assert canonical(np.array([0.0, -0.0])) == canonical(np.zeros(2)) != canonical(np.zeros(3))
    assert canonical(-0.0) == canonical(0.0) == canonical(np.float64(0.0))
    assert (
        canonical([1, 2])
        == canonical((1, 2))
        == canonical(np.array([1, 2]))
        == canonical(range(1, 3))
    )
    assert canonical(["a", "b"]) == canonical(np.array(["a", "b"]))
    assert canonical({"a": 1, "b": 2}) == canonical({"b": 2, "a": 1})


def test_other_settings_have_other_bytes():
    values = [
        None, True, 1, 1.0, "1", "", [], [None], [[]], {}, {"a": 1}, ["a", 1], [["a"], 1],
        np.zeros(0), np.zeros((2, 1)), np.zeros((1, 2)), np.zeros(2), math_next(1.0), -1,
        Euclidean(2), Euclidean(3), Sphere(2), AffineInvariantSPD(2), Product(Euclidean(2)),
        GeodesicBall(Euclidean(2), np.zeros(2), 1.0), GeodesicBall(Euclidean(2), np.zeros(2), 2.0),
        Settings(1.0), Settings(2.0),
    ]  # fmt: skip
    assert len({canonical(value) for value in values}) == len(values)


def math_next(number):
    return float(np.nextafter(number, 2.0))


@pytest.mark.parametrize("value", [len, object(), {1: 2}, {1, 2}, b"1", 1j, Settings])
def test_settings_that_nobody_can_compare_are_refused(value):
    with pytest.raises(TypeError, match="clients cannot compare"):
        Agreement({"clip": value}, 3, 100)


def test_an_agreement_names_what_differs():
    settings = {"class": "Means", "radius": 1.0, "center": np.eye(2)}
    agreement = Agreement(settings, 3, 100)
    assert agreement.differing(Agreement(dict(settings), 3, 100).marks) == ""
    for name, other in (("radius", 2.0), ("center", 2.0 * np.eye(2)), ("class", "Others")):
        changed = Agreement(settings | {name: other}, 3, 100)
        assert agreement.differing(changed.marks) == name
        assert agreement.digest != changed.digest
    assert agreement.differing(Agreement(settings, 4, 100).marks) == "length of the sum"
    assert (
        agreement.differing(Agreement(settings, 3, 100, attempts=3).marks) == "attempts of the sum"
    )
    assert "number of settings" in agreement.differing(Agreement({}, 3, 100).marks)


def test_sums_that_do_not_fit_are_refused():
    agreement = Agreement({}, 3, 2**40)
    agreement.check_sizes(2**22)
    with pytest.raises(ValueError, match="62 bits"):
        agreement.check_sizes(2**22 + 1)
    with pytest.raises(ValueError, match="2\\^32"):
        Agreement({}, 2**32, 1)


# -- masks -----------------------------------------------------------------------------------------


def secrets_of(names):
    return {name: np.random.default_rng(place).bytes(32) for place, name in enumerate(names)}


@pytest.mark.parametrize("length", [1, 253, 3000])
@pytest.mark.parametrize("count", [2, 3, 20])
def test_masks_cancel(count, length):
    secrets = secrets_of([f"h{k:02d}" for k in range(count)])
    keys = {name: masks.public_key(secret) for name, secret in secrets.items()}
    total = np.zeros(length, np.uint64)
    for name, secret in secrets.items():
        own = masks.mask(name, masks.pair_keys(name, secret, keys, b"salt"), length)
        assert own.dtype == np.uint64 and own.any()
        total = total + own
    assert not total.any()


def test_masks_are_the_same_with_every_version_and_on_every_machine():
    """Clients of one sum may have other versions of NumPy, Python and ``cryptography``."""
    secrets = {name: bytes([place]) * 32 for place, name in enumerate(NAMES)}
    keys = {name: masks.public_key(secret) for name, secret in secrets.items()}
    shared = masks.pair_keys("north", secrets["north"], keys, b"salt")
    words = masks.mask("north", shared, 1000).astype("<u8").tobytes()
    settings = {"center": np.array([[1.5, -0.0]]), "more": {"radius": 1.0, "classes": ["a", 2]}}
    agreement = Agreement(settings, 29, 2**40)
    release = Attempt("spring", 0, 1).digest(Cohort(KEYS, 2), agreement)
    assert masks.digest("test", words).hex()[:32] == "75a6672d2d425cf416705fc8b8020d3a"
    assert agreement.digest.hex()[:32] == "010f632e0429e281d66c541015666a5d"
    assert release.hex()[:32] == "671d339396a38eee5489f9a880b5eca8"


def copied_key_shows_the_victim(module):
    """Whether the words of "north" are in the clear for one who attends with a copy of a key.

    "west" works with the server, and attends with the key of "east".
    """
    secrets = secrets_of(("east", "north"))
    keys = {name: module.public_key(secret) for name, secret in secrets.items()}
    keys["west"] = keys["east"]
    shared = module.pair_keys("north", secrets["north"], keys, b"salt")
    return not module.mask("north", shared, 100).any()


def test_names_are_in_the_keys():
    assert not copied_key_shows_the_victim(masks)
    assert copied_key_shows_the_victim(planted(masks, "info=names", "info=None"))


@pytest.mark.parametrize(
    "key",
    [bytes(32), b"\x01" + bytes(31), (2**255 - 20).to_bytes(32, "little")],
    ids=["zero", "one", "minus one"],
)
def test_keys_of_small_order_are_refused(key):
    with pytest.raises(ValueError, match="small order"):
        masks.pair_keys("east", bytes([1]) * 32, {"east": b"", "west": key}, b"salt")


@pytest.mark.parametrize(
    "key",
    [
        (2**255 - 19).to_bytes(32, "little"),
        (2**255 - 10).to_bytes(32, "little"),
        bytes(31) + b"\x80",
        b"\x09" + bytes(30) + b"\x80",
        bytes(31),
        bytes(33),
        bytearray(32),
        "0" * 32,
        np.bytes_(b"1" * 32),
    ],
)
def test_keys_that_have_another_form_are_refused(key):
    with pytest.raises(ValueError, match="public key"):
        masks.check_key(key)


def test_packed_parts_are_found_again():
    for parts in ([], [b""], [b"", b""], [b"a", b"bc"], [bytes(300)]):
        assert masks.unpacked(masks.packed(*parts)) == parts
    for data in (b"\0", b"\1\0\0\0", b"\2\0\0\0a", b"\0\0\0\0\1"):
        with pytest.raises(ValueError, match="middle of a part"):
            masks.unpacked(data)


def test_a_hash_has_one_use_and_no_borders():
    found = [masks.digest(*parts) for parts in (("a", b"bc"), ("a", b"b", b"c"), ("ab", b"c"))]
    assert len(set(found)) == 3


def test_the_package_is_asked_for_in_words(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cryptography.exceptions", None)
    masks.primitives.cache_clear()
    with pytest.raises(ImportError, match=r"skriemdp\[secure\]"):
        Identity(bytes(32)).sign(b"")
    monkeypatch.undo()
    assert len(Identity(bytes(32)).public) == 32
