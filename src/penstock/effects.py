"""What a machine asks of its node: values, performed by the shell in one order.

Persist, sync, send, reply. A machine never performs anything itself.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

# A machine's own name for somebody who waits for an answer.
Ticket: TypeAlias = Hashable


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Wake the machine with `event`, `after_ms` from now. Replaces a timer of the same name."""

    name: str
    after_ms: float
    event: Any


@dataclass(frozen=True, slots=True)
class CancelTimer:
    name: str


class Answer(NamedTuple):
    """To somebody who was parked under this ticket; a KafkaError is an answer like any other.

    `waits_on`: if the log refuses the records beside it, the machine has forgotten nothing of who
    waits here, and there is no answer yet.
    """

    ticket: Ticket
    reply: Any
    waits_on: bool = False


class Failure(NamedTuple):
    """An exception of our own code, and what pays for it: one group, transaction or request."""

    subject: str
    problem: Exception
    consequence: str  # and the next step


@dataclass(frozen=True, slots=True)
class Outcome:
    """What `handle` decided.

    `records` become one atomic batch; `reply`, `answers` and `sends` leave once they are
    committed, or at once if there are none and everything the machine has seen is committed.

    `parked`: whoever asked is answered later, by an Answer with this ticket. `volatile`: handling
    changed state that no record holds (who waits, who was heard of), which speaks of the records
    already. If the log refuses those, whoever asked hears of it, and the machine gets the event
    `if_refused`, to take that back; without one it is rebuilt from its log.

    `failures`: parts of the event that raised, each at the cost of its subject alone.
    """

    records: Sequence[Any] = ()
    reply: Any = None
    timers: Sequence[SetTimer | CancelTimer] = field(default=())
    answers: Sequence[Answer] = ()
    sends: Sequence[Any] = ()
    parked: Ticket | None = None
    volatile: bool = False
    if_refused: Any = None
    failures: Sequence[Failure] = ()
