"""Contents of a model's file, read without loading it: none of its code runs."""

from __future__ import annotations

import bz2
import gzip
import importlib
import inspect
import io
import json
import lzma
import math
import os
import pickle
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, ClassVar

import numpy as np

from skriemdp._errors import PublicValueError
from skriemdp._fingerprint import fingerprint
from skriemdp._known_classes import combiner, free_of_records, learned
from skriemdp._walk import walk

# Largest size of an unpacked file, in bytes.
_MOST_BYTES = 2**31
# Shortest list of numbers that may be data; shorter ones are taken for settings.
_FEWEST_ROWS = 5
_PACKED: tuple[tuple[bytes, Callable[[IO[bytes]], Any]], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"BZ", bz2.open),
    (b"\xfd7zXZ", lzma.open),
    (b"]\x00", lzma.open),
)
# Functions and classes of others that make values, and run nothing of the file's.
_VALUES = {
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("builtins", "set"),
    ("builtins", "frozenset"),
    ("builtins", "slice"),
    ("builtins", "range"),
    ("builtins", "complex"),
    ("builtins", "bytearray"),
    ("collections", "OrderedDict"),
    ("fractions", "Fraction"),
    ("_codecs", "encode"),
}
_ARRAYS = ("_reconstruct", "_frombuffer", "scalar", "dtype", "ndarray")
_COMPOSITES = ("Pipeline", "FeatureUnion", "ColumnTransformer")
# Attributes of a fitted model that are no parameters and were not learned.
_OWN = {"_learned", "_released", "_sklearn_version", "privacy_spent_"}


@dataclass(frozen=True)
class ModelFile:
    """Statements and checks found in the file of a model.

    Attributes
    ----------
    statements : list of dict
        What it states of its charges, each as `storage.matches` takes it.
    stated : list of dict
        Unit, epsilon and delta that its models state, in the same order; empty where unknown.
    against : list of str
        What no charge covers.
    compared, left : list of str
        What was compared with what the fits released, and what was not.
    """

    statements: list[dict[str, Any]]
    stated: list[dict[str, Any]]
    against: list[str]
    compared: list[str]
    left: list[str]


def read_model(path: Any) -> ModelFile:
    """Read a pickle, a joblib dump, or a statement as JSON.

    Raises
    ------
    ValueError
        The file cannot be read, or names no charge.
    """
    name = os.fsdecode(path)
    try:
        with _opened(path) as file:
            if file.read(1) == b"{":
                file.seek(0)
                statement = json.load(file)
                left = ["numbers, arrays and objects of the model: the file is its statement alone"]
                return ModelFile([statement], [{}], [], ["event, unit and public facts"], left)
            file.seek(0)
            reader = _Reader(_unpacked(file))
            root = reader.load()
    except OSError as error:
        raise PublicValueError(
            f"cannot read {name!r}: {error.strerror or 'it is damaged'}."
        ) from None
    except _Unreadable as error:
        raise PublicValueError(f"cannot read {name!r}: {error}") from None
    except Exception:  # whatever a file that is neither leads to
        root = None
    found = None if root is None else _searched(root, reader)
    if found is None or not found.statements:
        raise PublicValueError(
            f"{name!r} names no charge; give a model that was charged to a ledger, written by "
            "pickle.dump or joblib.dump, or its statement, written by "
            "json.dump(model.privacy_spent_.to_dict(), file)."
        )
    return found


# -- files -----------------------------------------------------------------------------------------


class _Unreadable(PublicValueError):
    """A file that is not looked at, with the reason."""


def _opened(path: Any) -> IO[bytes]:
    """A regular file, opened without waiting for anybody."""
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise _Unreadable("it is no regular file; copy the model to one.")
    return os.fdopen(number, "rb")


def _unpacked(file: IO[bytes]) -> IO[bytes]:
    """The file, unpacked if joblib packed it."""
    head = file.read(6)
    file.seek(0)
    for magic, opened in _PACKED:
        if head.startswith(magic):
            return _limited(opened(file).read(_MOST_BYTES + 1))
    if head.startswith(b"\x04\x22\x4d\x18"):
        raise _Unreadable("it is packed by lz4; write it with joblib.dump(model, file).")
    if head[:1] == b"\x78":
        return _limited(zlib.decompressobj().decompress(file.read(), _MOST_BYTES + 1))
    return file


def _limited(content: bytes) -> IO[bytes]:
    if len(content) > _MOST_BYTES:
        raise _Unreadable("unpacked it has more than 2 GiB; write it without compression.")
    return io.BytesIO(content)


# -- objects that do nothing -----------------------------------------------------------------------


class _Inert:
    """Stands for an object of the file: what it would be made of."""

    module, name = "", ""
    parts: tuple
    entries: list
    state: Any

    def __new__(cls, *parts: Any, **more: Any) -> _Inert:
        """Keep what the object would be made of."""
        made = super().__new__(cls)
        vars(made).update(parts=parts, more=more, state=None, entries=[])
        return made

    def __init__(self, *parts: Any, **more: Any):
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        self.entries.append((key, value))

    def append(self, entry: Any) -> None:
        """Keep an entry."""
        self.entries.append(entry)

    add = append

    def extend(self, entries: Any) -> None:
        """Keep entries."""
        self.entries.extend(entries)

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes that it would have."""
        state = self.state
        if isinstance(state, tuple) and len(state) == 2:  # those of slots apart
            parts = [part for part in state if isinstance(part, dict)]
            state = {name: value for part in parts for name, value in part.items()}
        return state if isinstance(state, dict) else {}


class _Reader(pickle._Unpickler):  # joblib derives from it, too
    """Reads pickles and joblib dumps; no class is loaded, nothing is called.

    Attributes
    ----------
    named : dict
        What the file names of other modules: whether an object of it would be made.
    """

    dispatch: ClassVar[dict[int, Callable[..., None]]] = dict(pickle._Unpickler.dispatch)
    stack: list[Any]  # type: ignore[misc]

    def __init__(self, file: IO[bytes]):
        super().__init__(file)
        self._file = file
        self.named: dict[tuple[str, str], type] = {}

    def find_class(self, module: str, name: str) -> Any:
        """A class that does nothing, whatever the name."""
        if (module, name) not in self.named:
            made = type(name, (_Inert,), {"module": module, "name": name})
            self.named[module, name] = made
        return self.named[module, name]

    def load_build(self) -> None:
        """Set a state; behind the one of joblib's wrapper lie the bytes of an array."""
        super().load_build()  # type: ignore[misc]
        made = self.stack[-1]
        if isinstance(made, _Inert) and made.name == "NumpyArrayWrapper":
            self.stack[-1] = self._array(made.attributes)

    dispatch[pickle.BUILD[0]] = load_build

    def _array(self, wrapped: dict[str, Any]) -> Any:
        dtype = _dtype(wrapped["dtype"])
        if dtype is None or dtype.kind == "O":
            inner = _Reader(self._file)
            inner.named = self.named
            return inner.load()
        if wrapped.get("numpy_array_alignment_bytes") is not None:
            self._file.read(self._file.read(1)[0])
        shape = tuple(map(int, wrapped["shape"]))
        content = self._file.read(math.prod(shape) * dtype.itemsize)
        array = np.frombuffer(content, dtype)
        return array.reshape(shape, order="F" if wrapped.get("order") == "F" else "C")


def _dtype(made: Any) -> np.dtype | None:
    """The dtype that an object of the file stands for; None of an unusual one."""
    if not (isinstance(made, _Inert) and made.parts and isinstance(made.parts[0], str)):
        return None
    code = made.parts[0]
    if not re.fullmatch("[biufcSUmMOV][0-9]*", code):
        return None
    order = made.state[1] if isinstance(made.state, tuple) and len(made.state) > 1 else "|"
    return np.dtype(f"{order}{code}" if order in ("<", ">") else code)


def _array_of(made: _Inert) -> Any:
    """The array that an object of the file stands for; the object itself where it is none."""
    if made.module.split(".")[0] != "numpy" or made.name not in _ARRAYS:
        return made
    if made.name == "_frombuffer" and len(made.parts) == 4:
        content, dtype, shape, order = made.parts
        return _filled(content, _dtype(dtype), shape, order == "F", made)
    if made.name == "scalar" and len(made.parts) == 2:
        return _filled(made.parts[1], _dtype(made.parts[0]), (), False, made)
    if isinstance(made.state, tuple) and len(made.state) == 5:
        _, shape, dtype, fortran, content = made.state
        return _filled(content, _dtype(dtype), shape, fortran, made)
    return made


def _filled(content: Any, dtype: np.dtype | None, shape: Any, fortran: bool, made: Any) -> Any:
    content = _bytes(content)
    if dtype is None:
        return made
    if isinstance(content, list):
        array = np.empty(len(content), dtype=object)
        array[:] = [_plain(entry) for entry in content]
    elif isinstance(content, (bytes, bytearray)):
        array = np.frombuffer(content, dtype)
    else:
        return made
    return array.reshape(shape, order="F" if fortran else "C")


def _bytes(content: Any) -> Any:
    """Bytes as older protocols write them, too."""
    if isinstance(content, pickle.PickleBuffer):
        return bytes(content)
    if isinstance(content, _Inert) and content.name == "encode" and content.parts:
        return str(content.parts[0]).encode("latin1", "replace")
    return content


def _plain(value: Any) -> Any:
    """A value with arrays in place of what stands for them."""
    if isinstance(value, _Inert):
        return _array_of(value)
    if type(value) in (list, tuple):
        return type(value)(_plain(entry) for entry in value)
    if type(value) is dict:
        return {key: _plain(entry) for key, entry in value.items()}
    return value


# -- what is in it ---------------------------------------------------------------------------------


def _searched(root: Any, reader: _Reader) -> ModelFile:
    against: list[str] = []
    compared: list[str] = []
    left: list[str] = []
    statements: list[dict[str, Any]] = []
    stated: list[dict[str, Any]] = []
    objects = [(_place(path), part) for path, part in walk(root, into=_looked_into)]
    within = set(_within(objects))
    sizes = set(_sizes(part for _, part in objects))
    vouched: set[int] = set()
    for path, part in objects:
        if not isinstance(part, _Inert):
            continue
        if part.name == "PrivacySpent" and _ours(part):
            entry = part.attributes.get("entry")
            if isinstance(entry, _Inert) and len(entry.parts) == 3:
                statement = {"entry": list(entry.parts)}
                if statement not in statements:
                    statements.append(statement)
                    stated.append(_stated(part))
        elif "privacy_spent_" in part.attributes and _ours(part):
            _compare(path, part, against, compared, left, vouched)
        elif id(part) not in within and (problem := _uncovered(part)):
            against.append(f"{_at(path)} {problem}")
    made = {type(part) for _, part in objects if isinstance(part, _Inert)}
    for (module, name), kind in sorted(reader.named.items()):
        if module.split(".")[0] in ("skriemdp", "sklearn") or _is_value(module, name):
            continue
        if kind in made:
            against.append(f"loading it would run {module}.{name}, which is not known here")
        else:
            left.append(f"what {module}.{name} does")
    against += _loose_arrays(root, sizes, vouched)
    left.append("whether rows were repeated before a fit")
    return ModelFile(statements, stated, list(dict.fromkeys(against)), compared, left)


def _looked_into(part: Any) -> bool:
    numbers = isinstance(part, _Inert) and part.module.split(".")[0] == "numpy"
    return not (isinstance(part, type) or (numbers and _array_of(part) is not part))


def _place(path: str) -> str:
    """A path as the model has it."""
    path = re.sub(r"\.?state\['([^']*)'\]", r".\1", path)
    path = re.sub(r"\.?entries\[\d+\]\[1\]", "", path)
    return path.removeprefix(".")


def _at(path: str) -> str:
    return f"{path}:" if path else "the model:"


def _ours(part: _Inert) -> bool:
    return part.module.split(".")[0] == "skriemdp"


def _is_value(module: str, name: str) -> bool:
    arrays = module.split(".")[0] == "numpy" and (name in _ARRAYS or name in np.sctypeDict)
    wrapped = module.startswith("joblib.") and name == "NumpyArrayWrapper"
    return arrays or wrapped or (module, name) in _VALUES


def _sizes(parts: Iterator[Any]) -> Iterator[int]:
    """Numbers of records and of people that statements name."""
    for part in parts:
        if isinstance(part, _Inert) and part.name == "PrivacySpent" and _ours(part):
            public = part.attributes.get("public")
            for name in ("n", "n_groups"):
                size = _plain(public.get(name)) if isinstance(public, dict) else None
                if isinstance(size, int) and size >= _FEWEST_ROWS:
                    yield size


def _within(objects: list[tuple[str, Any]]) -> Iterator[int]:
    """Identities of our own objects that a private fit made as a part of itself."""
    for _, part in objects:
        if isinstance(part, _Inert) and _ours(part) and "privacy_spent_" in part.attributes:
            for name in part.attributes.get("_released") or ():
                for _, inner in walk(part.attributes.get(name), into=_of_ours):
                    if isinstance(inner, _Inert) and _of_ours(inner):
                        yield id(inner)


def _of_ours(part: Any) -> bool:
    """Whether to look further for parts of a fit; what learns without privacy is none."""
    learning = isinstance(part, _Inert) and part.module == "skriemdp.preprocessing"
    return not learning and (not isinstance(part, _Inert) or _ours(part))


def _stated(spent: _Inert) -> dict[str, Any]:
    names = {"unit": "unit", "planned_epsilon": "epsilon", "planned_delta": "delta"}
    return {to: spent.attributes[name] for name, to in names.items() if name in spent.attributes}


def _compare(
    path: str,
    model: _Inert,
    against: list[str],
    compared: list[str],
    left: list[str],
    vouched: set[int],
) -> None:
    """Compare the numbers of a private model with those that its fit released."""
    attributes, released = model.attributes, model.attributes.get("_released")
    if not isinstance(released, Mapping):
        left.append(f"{path or model.name}, which was not fitted by itself")
        return
    for name, digest in released.items():
        if name in ("privacy_spent_", "n_features_in_"):
            continue
        value = _plain(attributes.get(name))
        place = f"{path}.{name}" if path else name
        if name not in attributes or fingerprint(value) != digest:
            against.append(f"{_at(path)} {name} is not what its fit released")
        elif digest is None:
            left.append(f"{place} (an object)")
        else:
            compared.append(place)
            vouched.add(id(attributes[name]))
    given = _parameters(model)
    for name in attributes.keys() - set(released) - given - _OWN:
        against.append(f"{_at(path)} it holds {name}, which its fit did not set")


def _parameters(model: _Inert) -> set[str]:
    """Names of parameters, of this installation's class."""
    try:
        made = getattr(importlib.import_module(model.module), model.name)
        return set(inspect.signature(made.__init__).parameters)
    except (ImportError, AttributeError, TypeError, ValueError):
        return set()


def _uncovered(part: _Inert) -> str:
    """Why no charge covers what an object learned; empty where nothing was."""
    attributes = part.attributes
    names = learned(attributes)
    if part.name in _COMPOSITES and part.module.startswith("sklearn."):
        return ""
    if part.module.split(".")[0] not in ("sklearn", "skriemdp"):
        return ""  # named with its module
    if not names:
        return ""
    known = free_of_records(part.name, part.module)
    if known is not None and known.holds({k: _plain(v) for k, v in attributes.items()}):
        return ""
    combined = combiner(part.name, part.module, attributes, attributes)
    if combined is not None:
        return "it keeps which labels occurred" if combined.labels else ""
    return f"it holds a fitted {part.name}, which learned without privacy ({', '.join(names[:3])})"


def _loose_arrays(root: Any, sizes: set[int], vouched: set[int]) -> Iterator[str]:
    """Arrays beside the models, and those anywhere that have a row for each record."""

    def beside(part: Any) -> bool:
        return _looked_into(part) and not (isinstance(part, _Inert) and part.attributes)

    outside = {id(part) for _, part in walk(root, into=beside)}
    for path, part in walk(root, into=lambda part: _looked_into(part) and id(part) not in vouched):
        value = _array_of(part) if isinstance(part, _Inert) else part
        if id(part) in vouched:
            continue
        array = isinstance(value, np.ndarray) and value.ndim > 0
        rows = len(value) if array or isinstance(value, (list, tuple)) else 0
        numbers = array or (rows >= _FEWEST_ROWS and _of_numbers(value))
        if numbers and (rows in sizes or (id(part) in outside and rows >= _FEWEST_ROWS)):
            what = f"an array of shape {value.shape}" if array else f"a list of {rows}"
            yield f"{_at(_place(path))} it holds {what} that no fit released"
        elif array and id(part) in outside:
            yield f"{_at(_place(path))} it holds an array of shape {value.shape} beside the model"


def _of_numbers(value: Any) -> bool:
    """Whether a list holds numbers, or rows of them."""
    first = value[0]
    while isinstance(first, (list, tuple)) and first:
        first = first[0]
    return isinstance(first, (int, float, complex)) or (
        isinstance(first, _Inert) and isinstance(_array_of(first), np.ndarray)
    )
