"""What serializers and deserializers have to ask elsewhere (a schema that is not known).

An event loop does not wait for a network. Their twins for event loops (serde.unwaiting) raise
NotToldYet where they would wait; whoever calls them has the question asked here, and calls again.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from penstock.client.calls import CallThread
from penstock.client.failures import ClientError
from penstock.client.serde import NotToldYet

T = TypeVar("T")

# About one thing that is made: a batch may hold many schemas, and each may name others.
QUESTIONS_MAX = 10_000


async def ask_apart(ask: Callable[[], object]) -> None:
    """On a thread of its own, which ends with the answer. Raises what the one who is asked raises;
    whoever is cancelled meanwhile leaves the question behind."""
    thread = CallThread("penstock-question")
    answered = thread.submit(ask)
    thread.end()
    await asyncio.wrap_future(answered)


async def when_told(make: Callable[[], T]) -> T:
    """What is made, once all that it takes was asked for."""
    for _ in range(QUESTIONS_MAX):
        try:
            return make()
        except NotToldYet as missing:
            ask = missing.ask
        await ask_apart(ask)
    raise never_content()


def never_content() -> ClientError:
    return ClientError(
        f"it has asked {QUESTIONS_MAX:,} questions and still does not know enough",
        next_step="See what the serializer or deserializer asks for",
    )
