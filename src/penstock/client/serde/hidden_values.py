"""Rejects secrets (SecretStr and its kin), which pydantic would write as stars.

A value with such a field is rejected, unless its class says how the secret is written. Only classes
that name a secret are checked; the contents of a field typed Any are not.
"""

import sys
import typing
from functools import lru_cache
from typing import Any

CLASSES_KEPT_MAX = 1_000
STARS = "*" * 10
_KINDS = ("SecretStr", "SecretBytes", "Secret")


def holds_secrets(value: Any) -> bool:
    """Return whether the class of a pydantic model names a secret, at any depth."""
    kind: Any = type(value)
    return _class_holds_secrets(kind)


@lru_cache(CLASSES_KEPT_MAX)
def _class_holds_secrets(kind: Any) -> bool:
    return _names_secret(kind, set())


def refuse_hidden(value: Any) -> None:
    """Raise ValueError if a secret of this model would be written as stars."""
    plain, written = value.model_dump(by_alias=True), value.model_dump(mode="json", by_alias=True)
    found = _hidden(plain, written, "")
    if found is not None:
        raise ValueError(
            f"{found} of {type(value).__name__} is a secret, of which pydantic writes stars. Give "
            "the model a @field_serializer for it that returns value.get_secret_value(), or leave "
            "the field out (exclude=True)"
        )


def _secrets() -> tuple[type[Any], ...]:
    pydantic = sys.modules["pydantic"]
    return tuple(getattr(pydantic, each) for each in _KINDS if hasattr(pydantic, each))


def _names_secret(kind: Any, seen: set[Any]) -> bool:
    arguments = typing.get_args(kind)
    origin = typing.get_origin(kind)
    if arguments or origin is not None:
        return any(_names_secret(each, seen) for each in (origin, *arguments))
    if not isinstance(kind, type) or kind in seen:
        return False
    seen.add(kind)
    if issubclass(kind, _secrets()):
        return True
    fields = getattr(kind, "model_fields", None) or getattr(kind, "__pydantic_fields__", None)
    if not isinstance(fields, dict):
        return False
    return any(_names_secret(each.annotation, seen) for each in fields.values())


def _hidden(value: Any, written: Any, path: str) -> str | None:
    """Return the path of the first secret that is written as its placeholder."""
    if isinstance(value, _secrets()):
        hides = written in (str(value), STARS) and written != value.get_secret_value()
        return (path or "the value") if hides else None
    inner: list[tuple[str, Any, Any]] = []
    if isinstance(value, dict) and isinstance(written, dict):
        names = zip(value.items(), written.items(), strict=False)
        inner = [(f".{name}", each, text) for (name, each), (_, text) in names]
    elif isinstance(value, list | tuple) and isinstance(written, list):
        pairs = enumerate(zip(value, written, strict=False))
        inner = [(f"[{index}]", each, text) for index, (each, text) in pairs]
    for step, each, text in inner:
        found = _hidden(each, text, f"{path}{step}".removeprefix("."))
        if found is not None:
            return found
    return None
