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
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, replacement: Callable[..., Any]
) -> None:
    """Replace a method for calls from the thread of this test."""
    original, own = getattr(owner, name), get_ident()

    @wraps(original)
    def by_thread(*arguments: Any, **named: Any) -> Any:
        chosen = replacement if get_ident() == own else original
        return chosen(*arguments, **named)

    monkeypatch.setattr(owner, name, by_thread)
