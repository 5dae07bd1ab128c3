"""Frees long messages in slices: a million elements freed at once would hold up the loop.

A message is not changed, since parts of it may be in use elsewhere. Its elements are referenced
here while their message goes, and then released, some at a time.
"""

from functools import cache
from typing import Any

from penstock.broker.sliced_work import Slices
from penstock.wire.schema import Array, schema_of

ELEMENTS_PER_SLICE = 1_000


def free_in_slices(messages: list[Any]) -> Slices[None]:
    """Empty the list. The caller keeps no other reference to its messages."""
    waiting = [messages]
    freed = 0
    while waiting:
        elements = waiting[-1]
        # mypy takes a class of Any for unhashable.
        names = _lists_of(type(elements[-1])) if elements else ()  # type: ignore[arg-type]
        if names:
            last = elements.pop()
            inner = (getattr(last, name) for name in names)
            waiting += [list(each) for each in inner if each]
            del last, inner
            freed += 1
        elif elements:
            freed += len(elements[-ELEMENTS_PER_SLICE:])
            del elements[-ELEMENTS_PER_SLICE:]
        else:
            waiting.pop()
        if freed >= ELEMENTS_PER_SLICE:
            freed = 0
            yield None


@cache
def _lists_of(cls: type) -> tuple[str, ...]:
    """Return the lists of a message; none of a number or a name."""
    if not hasattr(cls, "__schema__"):
        return ()
    return tuple(each.name for each in schema_of(cls).fields if isinstance(each.kind, Array))
