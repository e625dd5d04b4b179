"""Noise from a cryptographic generator, public randomness from a public seed."""

from __future__ import annotations

import functools
import hashlib
import inspect
import numbers
import secrets
import threading
from collections.abc import Callable, Hashable
from typing import Any, NoReturn

import numpy as np

from skriemdp._errors import PublicRuntimeError, PublicTypeError, PublicValueError
from skriemdp._process import refuse_forks, this_process
from skriemdp._validation import shown

# Largest number of integers drawn in advance: 64 bits each, half a megabyte.
_LARGEST_BLOCK = 2**16
# Integers drawn in advance at first: about what a fit with a private search uses.
_USUAL = 128


def check_random_state(random_state: Any) -> None:
    """Raise unless `random_state` is None or a non-negative integer.

    Generators are refused: an object that several fits share repeats or couples their noise, and
    two releases that share one draw reveal the exact statistic.
    """
    if random_state is None:
        return
    why = (
        "a generator shared between fits would couple their noise. Pass None for private noise "
        "from the operating system, or an int for tests and studies."
    )
    _check_seed("random_state", random_state, "None or an int", why)


def check_public_seed(public_seed: Any) -> None:
    """Raise unless `public_seed` is a non-negative integer: public randomness is reproducible."""
    _check_seed("public_seed", public_seed, "an int", "public randomness has to be reproducible.")


def _check_seed(name: str, seed: Any, wanted: str, why: str) -> None:
    if not isinstance(seed, numbers.Integral) or isinstance(seed, bool):
        raise PublicTypeError(f"{name} must be {wanted}, got {type(seed).__name__}: {why}")
    if not 0 <= int(seed) <= 2**128 - 1:
        raise PublicValueError(f"{name} must lie in [0, 2**128), got {shown(seed)}.")


def public_generator(public_seed: int, *labels: object) -> np.random.Generator:
    """Generator for public randomness (random features, start points, splits).

    Everyone may know its output; it never feeds noise.  `labels` separate independent uses.
    """
    check_public_seed(public_seed)
    key = hashlib.blake2b(repr(("public", int(public_seed), *labels)).encode(), digest_size=16)
    return np.random.default_rng(int.from_bytes(key.digest(), "little"))


def data_digest(*arrays: Any) -> bytes:
    """Digest of validated arrays; enters the stream keys of seeded fits only.

    Sparse matrices are digested by their parts, None by a mark.
    """
    state = hashlib.blake2b(digest_size=32)
    for array in arrays:
        if array is None:
            state.update(b"none")
            continue
        parts: tuple = (array,)
        if hasattr(array, "tocsr"):
            csr = array.tocsr()
            parts = (np.asarray(csr.shape), csr.indptr, csr.indices, csr.data)
        for part in parts:
            part = np.ascontiguousarray(part)
            state.update(repr((part.shape, part.dtype.str)).encode())
            if part.dtype.kind in "mM":  # times have no buffer
                part = part.view(np.int64)
            elif part.dtype.hasobject:
                part = part.astype(str)
            state.update(part.data.cast("B") if part.size else b"")
    return state.digest()


class NoiseGenerator(np.random.Generator):
    """A generator of private noise, bound to the process that made it.

    It may hold draws that were made ahead, so it is never pickled, and a process that was forked
    from its own refuses to draw from it, by whatever method: two processes would give out the same
    noise, and the difference of two releases would be exact.
    """

    def __init__(self, bit_generator: np.random.BitGenerator):
        super().__init__(bit_generator)
        self._process = this_process()
        self._lock = threading.Lock()  # two threads that took one stock would share its noise
        self._ahead = np.empty(0, dtype=np.int64)
        self._block = 64  # as cheap as one
        self._stocks: dict[Hashable, tuple[list[Any], int]] = {}

    def take_ahead(
        self, count: int, draw: Callable[[np.random.Generator, int], np.ndarray]
    ) -> np.ndarray:
        """The next `count` integers of a stock that ``draw(rng, size)`` fills, in growing blocks.

        All draws from one generator must be of one law; blocks double up to `_LARGEST_BLOCK`.
        """
        self.check_process()
        with self._lock:
            missing = count - len(self._ahead)
            if missing > 0:
                block = max(missing, self._block)
                self._block = min(2 * self._block, _LARGEST_BLOCK)
                self._ahead = np.concatenate([self._ahead, draw(self, block)])
            taken, self._ahead = self._ahead[:count], self._ahead[count:]
            return taken

    def next_ahead(
        self, law: Hashable, draw: Callable[[np.random.Generator, int], list[Any]], most: int
    ) -> Any:
        """The next of a stock of independent draws of `law`, which ``draw(rng, count)`` fills.

        Stocks double, up to `most` draws.
        """
        self.check_process()
        with self._lock:
            stock, count = self._stocks.get(law, ([], 1))
            if not stock:
                stock = draw(self, count)
                stock.reverse()
                self._stocks[law] = stock, min(2 * count, most)
            return stock.pop()

    def expect(self, count: int) -> None:
        """Say how many integers will be taken in all; drawn together they cost less."""
        self._block = max(self._block, min(int(count), _LARGEST_BLOCK))

    @property
    def bit_generator(self) -> np.random.BitGenerator:  # type: ignore[override]
        """Bit generator of this process only, like the draws."""
        self.check_process()
        return np.random.Generator.bit_generator.__get__(self)  # type: ignore[attr-defined]

    def check_process(self) -> None:
        """RuntimeError in a forked process."""
        if this_process() != self._process:
            refuse_forks(self._process, "a noise generator", "repeat the noise of its parent")

    def __reduce__(self) -> NoReturn:
        raise PublicTypeError(
            "noise generators are never pickled: a copy would repeat their noise."
        )


def _bound_to_its_process(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def draw(self: NoiseGenerator, *args: Any, **kwargs: Any) -> Any:
        self.check_process()
        return method(self, *args, **kwargs)

    return draw


# All methods of numpy's class draw (or, "spawn", make generators that would): every law there is,
# and those of numpy's next versions.
for _name, _method in inspect.getmembers(np.random.Generator, inspect.ismethoddescriptor):
    if not _name.startswith("_") and callable(_method):
        setattr(NoiseGenerator, _name, _bound_to_its_process(_method))


class NoiseStreams:
    """Independent noise generators for the releases of one fit.

    ``streams("label")`` returns a ``numpy.random.Generator``.  Without a seed it is the same one
    for all labels, whose key is 256 bits from the operating system, kept nowhere
    else: draws go on where those before ended.  With an integer seed the key is a BLAKE2b hash of
    seed, context and label: identical fits repeat, fits with another event or other data share
    nothing (docs/sharp-edges.md).  The noise is then reproducible, hence not private.
    A label may be used once, and in the process that made the streams: what was charged once would
    be released once more by a process that was forked in the middle of a fit.
    """

    def __init__(self, random_state: int | None = None, context: bytes = b""):
        check_random_state(random_state)
        self._seed = None if random_state is None else int(random_state)
        self._context = context
        self._used: set[tuple] = set()
        self._process = this_process()
        self._secret: bytes | None = None
        self._private: NoiseGenerator | None = None

    @property
    def seeded(self) -> bool:
        """Whether the noise can be reproduced, and therefore protects nobody."""
        return self._seed is not None

    def __call__(self, *label: object) -> np.random.Generator:
        from randomgen import ChaCha

        key = self._key(label)
        if self._private is not None:
            return self._private
        made = NoiseGenerator(ChaCha(key=np.frombuffer(key, dtype="<u8"), rounds=20))
        if self._seed is None and self._secret is None:
            made.expect(_USUAL)
            self._private = made
        return made

    def repeatable(self, *label: object) -> NoiseStreams:
        """Streams of their own, which give the same noise again where a label is used again.

        For releases that are asked for by name and may be interrupted: begun anew they are the
        same release, and two of them tell no more than one.
        """
        streams = NoiseStreams(self._seed)
        streams._secret = self._key(label)
        return streams

    def _key(self, label: tuple[object, ...]) -> bytes:
        refuse_forks(self._process, "a fit", "release again what was charged once")
        if self._secret is not None:
            return hashlib.blake2b(repr(label).encode(), key=self._secret, digest_size=32).digest()
        if label in self._used:
            raise PublicRuntimeError(f"the noise stream {label!r} was already used in this fit.")
        self._used.add(label)
        if self._seed is None:
            return secrets.token_bytes(32)
        material = repr((self._seed, label)).encode() + b"|" + self._context
        return hashlib.blake2b(material, digest_size=32).digest()

    def __getstate__(self) -> NoReturn:
        raise PublicTypeError("noise streams are never pickled: a copy would repeat their noise.")
