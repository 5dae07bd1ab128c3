"""Records that cannot be read before somebody else was asked, as for a schema that is not known.

The question is asked on a thread, and meanwhile the records are in hand as those of a body are. An
answer that does not come is the failure of the first record that needs it.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from penstock.client.asking import QUESTIONS_MAX, ask_apart, never_content
from penstock.client.consumer.desk import Desk, Fetched
from penstock.client.consumer.ledger import Work
from penstock.client.consumer.reading import Reader
from penstock.client.serde import NotToldYet

T = TypeVar("T")


async def once_told(
    missing: NotToldYet,
    reader: Reader[Any, Any],
    desk: Desk,
    work: Work[Fetched],
    make: Callable[[], T],
) -> T:
    """What is made of the work, once all that it needs was asked for. `make` gives back by itself
    what it cannot read; a cancellation gives back all of it."""
    for asked in range(1, QUESTIONS_MAX + 1):
        try:
            await ask_apart(missing.ask)
        except Exception as error:
            reader.unanswered = error
        except BaseException:
            desk.give_back(work)
            raise
        if asked == QUESTIONS_MAX:
            reader.unanswered = never_content()
        try:
            return make()
        except NotToldYet as further:
            missing = further
        finally:
            reader.unanswered = None
    raise AssertionError("without an answer nothing asks again")
