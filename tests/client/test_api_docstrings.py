"""Whatever a person may call of the clients says what it does: help() is the first thing asked."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from penstock import Admin, Consumer, Producer
from penstock import sync as blocking
from penstock.client.admin import aio, aio_parts
from penstock.retry import Retrying
from penstock.retry.dead_letters import DeadLetters
from penstock.worker import Worker

CLASSES: list[type[Any]] = [
    *(Admin, Consumer, Producer),
    *(blocking.Admin, blocking.Consumer, blocking.Producer),
    *(DeadLetters, Retrying, Worker),
    *(
        each
        for room in (aio, aio_parts)
        for each in vars(room).values()
        if inspect.isclass(each) and each.__module__ == room.__name__
    ),
]


def public(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    for name, found in inspect.getmembers(kind):
        member = found.fget if isinstance(found, property) else found
        if not name.startswith("_") and callable(member):
            yield name, member


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_public_method_says_what_it_does(kind: type[Any]) -> None:
    silent = [name for name, member in public(kind) if not inspect.getdoc(member)]
    assert silent == []


@pytest.mark.parametrize("name", ["Admin", "Consumer", "Producer"])
def test_twins_have_the_same_names(name: str) -> None:
    kinds = {"Admin": Admin, "Consumer": Consumer, "Producer": Producer}
    in_loops = {each for each, _ in public(kinds[name])}
    blocks = {each for each, _ in public(getattr(blocking, name))}
    # Of the blocking one alone: what reads and writes beside it on the same connections, and the
    # time of several calls, which in a loop is asyncio.timeout.
    beside = {"nodes", "routes", "within"} if name == "Admin" else set()
    assert blocks - in_loops <= beside
    assert not in_loops - blocks
