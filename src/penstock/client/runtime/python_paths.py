"""Python objects named in a configuration: `package.module:name`, or dots throughout."""

from importlib import import_module
from typing import Any


class NotThere(ValueError):
    """No object at this path; the text says which part is missing."""


def load(path: str) -> Any:
    """Return the object at this path; import its module."""
    module_name, colon, names = path.partition(":")
    if not colon:
        module_name, _, names = path.rpartition(".")
    if not module_name or not names or not all(map(str.isidentifier, module_name.split("."))):
        raise NotThere(f"{path!r} is no Python path; it looks like package.module:name")
    try:
        found: Any = import_module(module_name)
    except ModuleNotFoundError as problem:
        # A module's own missing import is raised as such.
        if problem.name is None or not (module_name + ".").startswith(problem.name + "."):
            raise
        raise NotThere(f"there is no module {module_name}") from None
    for name in names.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise NotThere(f"{module_name} has no {names}") from None
    return found
