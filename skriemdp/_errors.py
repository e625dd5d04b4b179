"""Errors whose words are public: they name parameters, shapes and cures, and no record.

Whatever this package raises on purpose is of one of these classes, and users catch it by the
built-in name.  The words of any other error may quote a record, and are replaced before a user sees
them (:mod:`skriemdp._quiet`).
"""

from __future__ import annotations

from typing import Self


class Public(Exception):
    """Mark of an error whose words tell of no record."""


class PublicValueError(Public, ValueError):
    """A value that is refused."""


class PublicTypeError(Public, TypeError):
    """An argument of a kind that is refused."""


class PublicRuntimeError(Public, RuntimeError):
    """Something that cannot be done now."""


class PublicAttributeError(Public, AttributeError):
    """An attribute that an estimator does not have with these parameters."""


class PublicNotImplementedError(Public, NotImplementedError):
    """Something that a class leaves to others."""


class PublicArithmeticError(Public, ArithmeticError):
    """A computation with public numbers that failed."""


class PublicMemoryError(Public, MemoryError):
    """Something that does not fit into memory."""

    def __new__(cls, *args: object) -> Self:
        # MemoryError's own, which Python finds first, refuses a class of two bases.
        return Exception.__new__(cls, *args)


class PublicImportError(Public, ImportError):
    """A package that is needed and not installed."""


class PublicIndexError(Public, IndexError):
    """A place that does not exist."""


class PublicOSError(Public, OSError):
    """A file or folder that cannot be used."""


class PublicFileNotFoundError(Public, FileNotFoundError):
    """A file that is not there."""


class PublicTimeoutError(Public, TimeoutError):
    """Something that took too long."""
