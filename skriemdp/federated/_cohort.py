"""Members of a secure sum: clients' identities, pinned by every client for itself."""

from __future__ import annotations

import json
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from skriemdp._errors import PublicTypeError, PublicValueError
from skriemdp._validation import check_count, check_path, shown
from skriemdp.federated._masks import KEY_BYTES, digest, number, primitives

_NAME = re.compile(r"[a-z0-9-]{1,64}")
MOST_CLIENTS = 10_000


def check_name(name: Any) -> None:
    """Raise unless `name` can name a client of a cohort."""
    if type(name) is not str or not _NAME.fullmatch(name):
        raise PublicValueError(
            "the name of a client must have 1 to 64 characters out of a-z, 0-9 and '-'; got "
            f"{shown(name)}."
        )


@dataclass(frozen=True, eq=False, repr=False)
class Identity:
    """A client's signing key (Ed25519), by which the others know it.

    Parameters
    ----------
    secret : bytes of length 32
    """

    secret: bytes

    def __post_init__(self) -> None:
        if type(self.secret) is not bytes or len(self.secret) != KEY_BYTES:
            raise PublicValueError(f"an identity must be {KEY_BYTES} secret bytes.")

    @classmethod
    def make(cls, path: str | Path) -> Self:
        """A new identity, in a new file that only its owner may read."""
        made = cls(secrets.token_bytes(KEY_BYTES))
        check_path(path=path)
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(made.secret.hex() + "\n")
        return made

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """The identity of a file; ValueError where others may read it too."""
        check_path(path=path)
        with open(path, encoding="ascii") as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o077:
                raise PublicValueError(
                    f"others may read the identity {os.fspath(path)!r}; make a new one, and let "
                    "only its owner read it (chmod 600)."
                )
            text = file.read(200).strip()
        if not re.fullmatch(r"[0-9a-f]{64}", text):
            raise PublicValueError(f"{os.fspath(path)!r} holds no identity.")
        return cls(bytes.fromhex(text))

    @property
    def public(self) -> bytes:
        """Return the public key of this client, as it stands in the cohort file."""
        return bytes(self._private().public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """The signature of a digest, 64 bytes."""
        return bytes(self._private().sign(message))

    def _private(self) -> Any:
        return primitives().ed25519.Ed25519PrivateKey.from_private_bytes(self.secret)


@dataclass(frozen=True)
class Cohort:
    """The clients that may be added up together, and how many of them may work with the server.

    Every client has this from its own people, not from the server; people compare `fingerprint`.

    Parameters
    ----------
    members : dict
        Name to public key of the identity, 32 bytes each.
    colluding : int, default=1
        How many clients of one sum may tell the server what they know, or add no noise, without a
        loss for the others.  At least 1: whoever took part can subtract the own share of the noise
        from what is published.

    Raises
    ------
    ValueError
        Fewer than two members, names that no client can have, two equal keys, or nobody left whose
        noise is not known.

    Examples
    --------
    >>> from skriemdp.federated import Cohort, Identity
    >>> north, south = Identity(bytes(32)), Identity(bytes(31) + b"1")
    >>> Cohort({"north": north.public, "south": south.public}).colluding
    1
    """

    members: dict[str, bytes]
    colluding: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.members, dict):
            raise PublicTypeError(f"members must be a dict, got {type(self.members).__name__}.")
        check_count(colluding=self.colluding)
        for name, key in self.members.items():
            check_name(name)
            if type(key) is not bytes or len(key) != KEY_BYTES:
                raise PublicValueError(
                    f"the public key of client {name!r} must be {KEY_BYTES} bytes."
                )
        if not 2 <= len(self.members) <= MOST_CLIENTS:
            raise PublicValueError(
                f"a cohort has 2 to {MOST_CLIENTS} clients, got {len(self.members)}."
            )
        if len(set(self.members.values())) < len(self.members):
            raise PublicValueError("two clients of the cohort have the same public key.")
        if self.colluding >= len(self.members):
            raise PublicValueError(
                f"colluding={self.colluding} of {len(self.members)} clients leaves nobody whose "
                "noise is not known; use a smaller number."
            )

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """The cohort of a file that :meth:`write` made."""
        check_path(path=path)
        with open(path, encoding="utf-8") as file:
            try:
                stored = json.load(file, object_pairs_hook=_once)
                keys = {name: bytes.fromhex(key) for name, key in stored["members"].items()}
                colluding = stored["colluding"]
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise PublicValueError(f"{os.fspath(path)!r} is no cohort file: {error}.") from None
        if stored.keys() != {"members", "colluding"}:
            raise PublicValueError(f"{os.fspath(path)!r} holds more than members and colluding.")
        return cls(keys, colluding)

    def write(self, path: str | Path) -> None:
        """Store the cohort in a new file."""
        keys = {name: self.members[name].hex() for name in sorted(self.members)}
        check_path(path=path)
        with open(path, "x", encoding="ascii") as file:
            json.dump({"colluding": int(self.colluding), "members": keys}, file, indent=1)

    @property
    def digest(self) -> bytes:
        """Digest of everything in it."""
        pairs = [
            part for name in sorted(self.members) for part in (name.encode(), self.members[name])
        ]
        return digest("cohort", number(self.colluding), *pairs)

    @property
    def fingerprint(self) -> str:
        """The digest as people compare it."""
        text = self.digest.hex()
        return " ".join(text[place : place + 8] for place in range(0, len(text), 8))

    def signed(self, name: str, signature: bytes, message: bytes) -> bool:
        """Whether client `name` signed `message`."""
        if not isinstance(name, str) or name not in self.members:
            raise PublicValueError(f"name={shown(name)} is no member of this cohort.")
        crypto = primitives()
        key = crypto.ed25519.Ed25519PublicKey.from_public_bytes(self.members[name])
        try:
            key.verify(signature, message)
        except crypto.InvalidSignature:
            return False
        return True


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A dict of JSON; ValueError where a name stands twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise PublicValueError("a name stands twice in it")
    return found
