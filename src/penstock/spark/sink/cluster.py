"""The requests of the sink's pure machines to a cluster, one at a time.

A machine is a generator that yields one request after the other, gets each answer, and returns its
result. `drive` runs it to its end; a simulation runs it step by step, with other actors in between.
A request without an answer (no node reachable, no authorization) raises, and the machine is
dropped: the next driver finishes its work.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from penstock.spark.sink.decisions import Decision, Driver, SinkProducer, WrittenTransaction

A = TypeVar("A")
R = TypeVar("R")


class End(NamedTuple):
    """An EndTxn, valid for this very producer: a late one ends no other transaction."""

    transactional_id: str
    producer: SinkProducer
    commit: bool


class Ended(NamedTuple):
    """The transaction has ended now or before; `producer` is the id's producer afterwards."""

    producer: SinkProducer


class Gone(NamedTuple):
    """There is no such transaction any more: PRODUCER_FENCED, INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE or INVALID_PRODUCER_ID_MAPPING."""

    reason: str


class OpenSinkTransaction(NamedTuple):
    transactional_id: str
    producer: SinkProducer
    started_ms: int


class SinkCluster(Protocol):
    """A cluster; each call retries while the cluster is only busy."""

    def take_over(self, transactional_id: str) -> SinkProducer:
        """Send InitProducerId: the previous producer is fenced, its open transaction ended."""
        ...

    def last_decision(self, sink_id: str) -> Decision | None:
        """Return the newest decision of a committed transaction, up to the end of the log."""
        ...

    def append_decision(
        self, transactional_id: str, driver: Driver, decision: Decision
    ) -> Gone | None:
        """Write the decision in an open transaction of the driver."""
        ...

    def end(self, ends: Sequence[End]) -> tuple[Ended | Gone, ...]: ...

    def open_transactions(self, sink_id: str) -> tuple[OpenSinkTransaction, ...]:
        """Return transactions of the sink's workers that are neither committed nor aborted yet."""
        ...


SinkRequest: TypeAlias = Callable[[SinkCluster], A]
SinkSteps: TypeAlias = Generator[SinkRequest[Any], Any, R]  # a machine with this result


def ask(request: SinkRequest[A]) -> SinkSteps[A]:
    """Yield one request; return its answer."""
    answer: A = yield request
    return answer


def drive(steps: SinkSteps[R], cluster: SinkCluster) -> R:
    """Run a machine to its result."""
    try:
        request = next(steps)
        while True:
            request = steps.send(request(cluster))
    except StopIteration as end:
        result: R = end.value
        return result


def ends_of(
    transactions: Iterable[OpenSinkTransaction | WrittenTransaction], *, commit: bool
) -> tuple[End, ...]:
    return tuple(End(each.transactional_id, each.producer, commit) for each in transactions)
