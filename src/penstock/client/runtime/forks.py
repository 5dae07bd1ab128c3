"""Forks: a client's threads stay in the parent, its memory is copied.

Registered clients are notified in the child before other code runs. They must not touch librdkafka
there: freeing it would wait for threads that do not exist, and crashes the child at exit. So
`leave_alone` keeps librdkafka's object alive.
"""

import ctypes
import os
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """A client that is notified in the child of a fork."""

    def forked(self) -> None: ...


_clients: "WeakSet[Forked]" = WeakSet()


def register(client: Forked) -> None:
    """Call `client.forked()` in children, while the client lives."""
    _clients.add(client)


def leave_alone(handle: object) -> None:
    """Keep this object allocated for good, even at the interpreter's end."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))


def _in_child() -> None:
    for client in list(_clients):
        client.forked()
    _clients.clear()


os.register_at_fork(after_in_child=_in_child)
