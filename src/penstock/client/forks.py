"""Clients do not survive a fork: their threads stay behind, their memory comes along.

A client that is registered here is told in the child before any other code runs there. It must
not touch librdkafka from then on: even to free it would wait for threads that do not exist, so
`leave_alone` keeps what belongs to the parent alive for as long as the child lives.
"""

import ctypes
import os
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """Who wants to know that this process is the child of a fork."""

    def forked(self) -> None: ...


_clients: "WeakSet[Forked]" = WeakSet()


def register(client: Forked) -> None:
    """Call `client.forked()` in children; a client that is no longer used is forgotten."""
    _clients.add(client)


def leave_alone(handle: object) -> None:
    """Never free this object, not even when the interpreter ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))


def _in_child() -> None:
    for client in list(_clients):
        client.forked()
    _clients.clear()


os.register_at_fork(after_in_child=_in_child)
