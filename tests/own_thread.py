"""Patches that a node of another test does not meet.

Nodes of this suite run in threads of the test process, and the shared one runs beside every test.
A simulated node runs in the thread of its test: a patch for that thread reaches no other node.
"""

from collections.abc import Callable
from functools import wraps
from threading import get_ident
from typing import Any

import pytest


def patch_own_thread(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, replacement: Any
) -> None:
    """Replace a function, method or property for calls from the thread of this test."""
    original = getattr(owner, name)
    if isinstance(original, property):
        assert original.fget is not None, "a property that can be read"
        chosen = _by_thread(original.fget, replacement.fget)
        monkeypatch.setattr(owner, name, property(chosen))
    else:
        monkeypatch.setattr(owner, name, _by_thread(original, replacement))


def _by_thread(original: Callable[..., Any], replacement: Callable[..., Any]) -> Callable[..., Any]:
    own = get_ident()

    @wraps(original)
    def by_thread(*arguments: Any, **named: Any) -> Any:
        chosen = replacement if get_ident() == own else original
        return chosen(*arguments, **named)

    return by_thread
