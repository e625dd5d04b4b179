"""Masks that cancel in a sum modulo 2^64, and digests of what clients must agree on.

There is no cryptography of our own here: X25519, HKDF-SHA256 and ChaCha20 come from the package
``cryptography`` (extra ``secure``), which is imported when it is needed.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

from skriemdp._errors import PublicImportError, PublicValueError

KEY_BYTES = 32
# Words in one key stream, and so the largest length of a vector.
MOST_WORDS = 2**32
_PROTOCOL = b"skriemdp secure sum 1"


@functools.cache
def primitives() -> Any:
    """Import the primitives that secure sums need from the package ``cryptography``.

    Raises
    ------
    ImportError
        Where it is not installed.
    """
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ed25519, x25519
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    except ImportError as error:
        raise PublicImportError(
            "secure sums need the package cryptography: pip install 'skriemdp[secure]'."
        ) from error
    return types.SimpleNamespace(
        ed25519=ed25519,
        x25519=x25519,
        Cipher=Cipher,
        ChaCha20=ChaCha20,
        SHA256=SHA256,
        HKDF=HKDF,
        InvalidSignature=InvalidSignature,
    )


def number(value: int) -> bytes:
    """A number from 0 to 2^64 - 1 as eight bytes, the least first."""
    return int(value).to_bytes(8, "little")


def whole(data: bytes) -> int:
    """Inverse of :func:`number`; ValueError unless there are eight bytes."""
    if len(data) != 8:
        raise PublicValueError("a number has eight bytes.")
    return int.from_bytes(data, "little")


def packed(*parts: bytes) -> bytes:
    """Parts one after another, each with its length before it."""
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


def unpacked(data: bytes) -> list[bytes]:
    """The parts that :func:`packed` put together; ValueError of anything else."""
    parts, place = [], 0
    while place < len(data):
        begin = place + 4
        place = begin + int.from_bytes(data[place:begin], "little")
        if len(data) < max(begin, place):
            raise PublicValueError("a message ends in the middle of a part.")
        parts.append(data[begin:place])
    return parts


def digest(use: str, *parts: bytes) -> bytes:
    """SHA-256 of the parts, with their lengths and a tag for each use."""
    return hashlib.sha256(packed(_PROTOCOL, use.encode("ascii"), *parts)).digest()


def check_key(key: bytes) -> None:
    """ValueError unless this is a public key of X25519 in its one canonical form.

    X25519 reads several strings as one key; two clients of one list must not have the same.
    """
    if type(key) is not bytes or len(key) != KEY_BYTES:
        raise PublicValueError(f"a public key must be {KEY_BYTES} bytes.")
    if int.from_bytes(key, "little") >= 2**255 - 19:
        raise PublicValueError("a public key is not in its canonical form.")


def public_key(secret: bytes) -> bytes:
    """The public key of X25519 that belongs to a secret of 32 random bytes."""
    private = primitives().x25519.X25519PrivateKey.from_private_bytes(secret)
    return bytes(private.public_key().public_bytes_raw())


def pair_keys(name: str, secret: bytes, keys: Mapping[str, bytes], salt: bytes) -> dict[str, bytes]:
    """The key that client `name` shares with each other client.

    Parameters
    ----------
    name : str
    secret : bytes
        Its secret key of this attempt.
    keys : dict
        Client to public key; its own is passed over.
    salt : bytes
        Digest of everything that two clients must agree on: with another one they get other keys.

    Raises
    ------
    ValueError
        For a public key of small order, with which the shared key would be known to all.

    Notes
    -----
    Both names enter the key.  Without them somebody who attends with a copy of another client's
    public key would share that client's masks, with the other sign.
    """
    crypto = primitives()
    private = crypto.x25519.X25519PrivateKey.from_private_bytes(secret)
    shared = {}
    for other, key in keys.items():
        if other == name:
            continue
        check_key(key)
        try:
            point = private.exchange(crypto.x25519.X25519PublicKey.from_public_bytes(key))
        except ValueError:
            raise PublicValueError(
                f"the public key of client {other!r} is of small order."
            ) from None
        names = packed(b"pair", *(each.encode("ascii") for each in sorted((name, other))))
        derive = crypto.HKDF(algorithm=crypto.SHA256(), length=KEY_BYTES, salt=salt, info=names)
        shared[other] = derive.derive(point)
    return shared


def mask(name: str, shared: Mapping[str, bytes], length: int) -> np.ndarray:
    """Return the mask of client `name` modulo 2^64; the masks of all clients of a list cancel.

    Parameters
    ----------
    name : str
    shared : dict
        Of :func:`pair_keys`.
    length : int
        Number of words.

    Returns
    -------
    ndarray of uint64
    """
    if length > MOST_WORDS:
        raise PublicValueError(f"a sum has at most 2^32 numbers, got {length}.")
    total = np.zeros(length, dtype=np.uint64)
    for other, key in shared.items():
        stream = _stream(key, length)
        total = total + stream if other > name else total - stream
    return total


def _stream(key: bytes, length: int) -> np.ndarray:
    """Words of ChaCha20; a key is used for one stream only, so its nonce may be zero."""
    crypto = primitives()
    cipher = crypto.Cipher(crypto.ChaCha20(key, bytes(16)), mode=None)
    words = cipher.encryptor().update(bytes(8 * length))
    return np.frombuffer(words, dtype="<u8").astype(np.uint64)
