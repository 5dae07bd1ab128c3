"""Packages whose names are loaded on first use."""

from collections.abc import Callable, Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def loaded_late(package: "dict[str, Any]", modules: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package: `package` are its globals, `modules` maps names to
    modules."""

    def load(name: str) -> object:
        module = modules.get(name)
        if module is None:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        from importlib import import_module

        found: object = getattr(import_module(module), name)
        package[name] = found
        return found

    return load
