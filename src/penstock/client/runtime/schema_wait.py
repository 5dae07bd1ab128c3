"""Schema lookups of serializers and deserializers in an event loop.

An event loop does not wait for a network. Serializers for event loops (serde.unwaiting) raise
NotToldYet instead; the caller asks here and calls again.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from penstock.client.failures import ClientError
from penstock.client.runtime.call_thread import CallThread
from penstock.client.serde.protocols import NotToldYet

T = TypeVar("T")

# A batch may have many schemas, and each may refer to others.
QUESTIONS_MAX = 10_000


async def ask_on_thread(ask: Callable[[], object]) -> None:
    """Ask on a thread that ends with the answer. Raise the question's error; a cancelled caller
    leaves the question behind."""
    thread = CallThread("penstock-question")
    answered = thread.submit(ask)
    thread.end()
    await asyncio.wrap_future(answered)


async def with_answers(make: Callable[[], T]) -> T:
    """Return make(), after all its questions were answered."""
    for _ in range(QUESTIONS_MAX):
        try:
            return make()
        except NotToldYet as missing:
            ask = missing.ask
        await ask_on_thread(ask)
    raise too_many_questions()


def too_many_questions() -> ClientError:
    return ClientError(
        f"it has asked {QUESTIONS_MAX:,} questions and still does not know enough",
        next_step="See what the serializer or deserializer asks for",
    )
