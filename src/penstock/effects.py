"""The effects that a machine asks of its node: values, performed by the shell in one order.

Persist, sync, send, reply. A machine never performs anything itself.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:  # defaults of type variables come with Python 3.13
    from typing_extensions import TypeVar as DefaultingTypeVar

    Event_co = DefaultingTypeVar("Event_co", covariant=True, default=Any)
    Record_co = DefaultingTypeVar("Record_co", covariant=True, default=Any)
    Reply_co = DefaultingTypeVar("Reply_co", covariant=True, default=Any)
else:
    Event_co = TypeVar("Event_co", covariant=True)
    Record_co = TypeVar("Record_co", covariant=True)
    Reply_co = TypeVar("Reply_co", covariant=True)

# A machine's own name for a request that waits for its answer.
Ticket: TypeAlias = Hashable


@dataclass(frozen=True, slots=True)
class SetTimer(Generic[Event_co]):
    """Wake the machine with `event`, `after_ms` from now. Replaces a timer of the same name."""

    name: str
    after_ms: float
    event: Event_co


@dataclass(frozen=True, slots=True)
class CancelTimer:
    name: str


class TicketAnswer(NamedTuple, Generic[Reply_co]):
    """An answer to the request that is parked under a ticket; a KafkaError is an answer too.

    `waits_on`: if the log rejects the records beside it, the request stays parked.
    """

    ticket: Ticket
    reply: Reply_co
    waits_on: bool = False


class Failure(NamedTuple):
    """An exception of our own code, and its subject: one group, transaction or request."""

    subject: str
    problem: Exception
    consequence: str  # and the next step


@dataclass(slots=True)  # hot path: a frozen one takes five times as long to make
class Outcome(Generic[Event_co, Record_co, Reply_co]):
    """The decision of `handle`.

    `records` become one atomic batch. `reply`, `answers` and `sends` leave when that batch is
    committed; without records, when all earlier batches are.

    `parked`: the request is answered later, by a TicketAnswer with this ticket. `volatile`:
    handling has changed state that no record holds and that is valid only with these records. If
    the log rejects the records, the request gets the error, and the machine gets the event
    `if_rejected`, which undoes the change. Without such an event the machine is rebuilt.

    `failures`: parts of the event that raised, each at the cost of its subject alone.
    """

    records: Sequence[Record_co] = ()
    reply: Reply_co | None = None
    timers: Sequence[SetTimer[Event_co] | CancelTimer] = ()
    answers: Sequence[TicketAnswer[Reply_co]] = ()
    sends: Sequence[object] = ()
    parked: Ticket | None = None
    volatile: bool = False
    if_rejected: Event_co | None = None
    failures: Sequence[Failure] = ()
