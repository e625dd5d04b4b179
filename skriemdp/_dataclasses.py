"""Dataclasses whose methods are closures: the standard ones compile theirs when a module loads.

A first fit makes a hundred classes, and compiling takes ten times as long as all else about them.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, init=True, repr=True):
        """:func:`dataclasses.dataclass`, with the same meaning of these arguments."""

        def made(cls: type) -> type:
            fields = _fields(cls, frozen)
            methods = _representation(fields) if repr else {}
            methods |= _initialisation(cls, fields) if init else {}
            methods |= _comparison(fields) if eq else {}
            methods |= _refusals(cls, fields) if frozen else {}
            for name, method in methods.items():
                if name not in cls.__dict__:
                    setattr(cls, name, method)
            if eq and cls.__dict__.get("__hash__") is None:
                cls.__hash__ = _hash(fields) if frozen else None
            return cls

        return made if cls is None else made(cls)


@dataclasses.dataclass
class _Standard:
    """What a field and the settings of the standard decorator look like."""

    field: int


_KIND = dataclasses.fields(_Standard)[0]._field_type  # type: ignore[attr-defined]


def _fields(cls: Any, frozen: bool) -> tuple[dataclasses.Field, ...]:
    """Fields of `cls` and of what it derives from; `cls` is marked as a dataclass."""
    fields: dict[str, dataclasses.Field] = {}
    for base in cls.__mro__[:0:-1]:
        fields |= getattr(base, "__dataclass_fields__", {})
    for name, annotation in inspect.get_annotations(cls).items():
        if "ClassVar" in str(annotation):
            continue
        field: Any = cls.__dict__.get(name, dataclasses.MISSING)
        if not isinstance(field, dataclasses.Field):
            field = dataclasses.field(default=field)
        elif field.default is not dataclasses.MISSING:
            setattr(cls, name, field.default)
        else:
            delattr(cls, name)
        field.name, field.type, field.kw_only, field._field_type = name, annotation, False, _KIND
        fields[name] = field
    settings: Any = copy.copy(_Standard.__dataclass_params__)  # type: ignore[attr-defined]
    settings.frozen = frozen
    cls.__dataclass_fields__, cls.__dataclass_params__ = fields, settings
    found = tuple(fields.values())
    if "__match_args__" not in cls.__dict__:
        type.__setattr__(cls, "__match_args__", tuple(field.name for field in _given(found)))
    return found


class _Signature:
    """What a call of a class takes; made only for who asks."""

    def __get__(self, instance: Any, cls: type) -> inspect.Signature:
        # An instance that can be called takes what its `__call__` takes.
        if instance is not None or not getattr(cls.__init__, "generic", False):  # type: ignore[misc]
            raise AttributeError("__signature__")
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = []
        for field in _given(dataclasses.fields(cls)):
            default = field.default
            if field.default_factory is not dataclasses.MISSING:
                default = field.default_factory
            if default is dataclasses.MISSING:
                default = inspect.Parameter.empty
            parameters.append(
                inspect.Parameter(field.name, kind, default=default, annotation=field.type)
            )
        return inspect.Signature(parameters, return_annotation=None)


def _given(fields: tuple[dataclasses.Field, ...]) -> tuple[dataclasses.Field, ...]:
    return tuple(field for field in fields if field.init)


def _initialisation(cls: type, fields: tuple[dataclasses.Field, ...]) -> dict[str, Any]:
    missing, fields = dataclasses.MISSING, _given(fields)
    names = tuple(field.name for field in fields)
    constants = {field.name: field.default for field in fields if field.default is not missing}
    factories = [
        (field.name, field.default_factory)
        for field in fields
        if field.default_factory is not missing
    ]
    known = set(names)
    then = hasattr(cls, "__post_init__")
    # From so many arguments on, defaults stand for the others.
    least = max((i + 1 for i, name in enumerate(names) if name not in constants), default=0)

    def __init__(self: Any, /, *args: Any, **kwargs: Any) -> None:
        if not kwargs and least <= len(args) <= len(names):
            values = self.__dict__
            values.update(zip(names, args, strict=False))
            for name in names[len(args) :]:
                values[name] = constants[name]
            if then:
                self.__post_init__()
            return
        given = dict(zip(names, args, strict=False)) | kwargs
        fits = len(given) == len(args) + len(kwargs)
        if len(given) < len(names):
            for name, make in factories:
                if name not in given:
                    given[name] = make()
            given = constants | given
        if not fits or given.keys() != known:
            try:
                inspect.signature(type(self)).bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{type(self).__name__}: {error}") from None
        values = self.__dict__
        for name in names:
            values[name] = given[name]
        if then:
            self.__post_init__()

    __init__.generic = True  # type: ignore[attr-defined]
    return {"__init__": __init__, "__signature__": _Signature()}


def _representation(fields: tuple[dataclasses.Field, ...]) -> dict[str, Any]:
    names = [field.name for field in fields if field.repr]

    def __repr__(self: Any) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({shown})"

    return {"__repr__": __repr__}


def _values(fields: tuple[dataclasses.Field, ...]) -> Callable[[Any], Any]:
    """What decides whether two objects are equal."""
    names = [field.name for field in fields if field.compare]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _comparison(fields: tuple[dataclasses.Field, ...]) -> dict[str, Any]:
    values = _values(fields)

    def __eq__(self: Any, other: Any) -> Any:
        return values(self) == values(other) if type(other) is type(self) else NotImplemented

    return {"__eq__": __eq__}


def _hash(fields: tuple[dataclasses.Field, ...]) -> Callable[[Any], int]:
    values = _values(fields)

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _refusals(cls: Any, fields: tuple[dataclasses.Field, ...]) -> dict[str, Any]:
    names = {field.name for field in fields}

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}
