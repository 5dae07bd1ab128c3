"""The errors in an answer, wherever its schema has a place for them.

Which lists can hold one is found once per class; a list that cannot is not looked at.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock.wire.schema import Array, Nested, schema_of

ERROR_CODE = "error_code"


class _Places(NamedTuple):
    """Where the errors of a class are: in itself, and in its structures and lists of them."""

    own: bool
    nested: tuple[str, ...]
    lists: tuple[str, ...]


_places: dict[type, _Places] = {}


def errors_in(response: Any) -> Iterator[int]:
    """The codes that are not 0."""
    kind = type(response)
    places = _places.get(kind) or _find(kind)
    if places.own and response.error_code:
        yield response.error_code
    for name in places.nested:
        if (value := getattr(response, name)) is not None:
            yield from errors_in(value)
    for name in places.lists:
        for value in getattr(response, name) or ():
            yield from errors_in(value)


def _find(kind: type) -> _Places:
    own, nested, lists = False, [], []
    for field in schema_of(kind).fields:
        if field.name == ERROR_CODE:
            own = True
        match field.kind:
            case Nested(cls=inner) if any(_find(inner)):
                nested.append(field.name)
            case Array(element=Nested(cls=inner)) if any(_find(inner)):
                lists.append(field.name)
    places = _places[kind] = _Places(own, tuple(nested), tuple(lists))
    return places
