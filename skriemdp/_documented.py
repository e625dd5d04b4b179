"""Links to the documentation of a class, shown by an estimator's diagram in a notebook."""

from __future__ import annotations

import functools
import importlib.metadata
import sys

# What the site calls a page of its reference.
_PAGE = "{site}/api/generated/{name}.html"


@functools.cache
def _site() -> str:
    """The address of the documentation, of which a release knows; empty in a checkout."""
    try:
        addresses = importlib.metadata.metadata("skriemdp").get_all("Project-URL") or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    named = dict(address.split(", ", 1) for address in addresses)
    return named.get("Documentation", "").rstrip("/")


class Documented:
    """Mixin whose notebook picture links to the reference, where the site has an address."""

    _doc_link_module = "skriemdp"

    @property
    def _doc_link_template(self) -> str:
        return _PAGE if _site() else ""

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        return {"site": _site(), "name": public_name(type(self))}


def public_name(cls: type) -> str:
    """The name under which a class is imported, ``skriemdp.PrivateFrechetMean``."""
    parts = cls.__module__.split(".")
    for end in range(1, len(parts)):
        module = ".".join(parts[:end])
        if cls.__name__ in getattr(sys.modules[module], "__all__", ()):
            return f"{module}.{cls.__name__}"
    return f"{cls.__module__}.{cls.__name__}"
