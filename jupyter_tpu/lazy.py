"""Names of a package that load their modules at first use, so that its light parts stay light."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's ``__getattr__``. modules: the names that each of its modules has, with blanks
    between them; those of "" are modules themselves.
    """
    module_of = {name: module for module, names in modules.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not module_of[name]:
            return import_module(f".{name}", package)
        return getattr(import_module(f".{module_of[name]}", package), name)

    return load
