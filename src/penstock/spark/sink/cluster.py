"""The requests of the sink's pure machines to a cluster, one at a time.

A SinkMachine returns one SinkRequest after the other and gets each answer. `drive` runs it to its
end; a simulation runs it step by step, with other actors in between. A request without an answer
(no node reachable, no authorization) raises, and the machine is dropped: the next driver finishes
its work.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from penstock.spark.sink.decisions import Decision, Driver, SinkProducer
from penstock.spark.sink.identity import driver_id

A = TypeVar("A")
R = TypeVar("R")
T = TypeVar("T")


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


class SinkRequest(ABC, Generic[A]):
    """One request of a machine to a cluster."""

    __slots__ = ()

    @abstractmethod
    def ask(self, cluster: SinkCluster) -> A: ...


@dataclass(frozen=True, slots=True)
class TakeOverSink(SinkRequest[SinkProducer]):
    sink_id: str

    def ask(self, cluster: SinkCluster) -> SinkProducer:
        return cluster.take_over(driver_id(self.sink_id))


@dataclass(frozen=True, slots=True)
class ReadDecision(SinkRequest[Decision | None]):
    sink_id: str

    def ask(self, cluster: SinkCluster) -> Decision | None:
        return cluster.last_decision(self.sink_id)


@dataclass(frozen=True, slots=True)
class AppendDecision(SinkRequest[Gone | None]):
    driver: Driver
    decision: Decision

    def ask(self, cluster: SinkCluster) -> Gone | None:
        name = driver_id(self.decision.sink_id)
        return cluster.append_decision(name, self.driver, self.decision)


@dataclass(frozen=True, slots=True)
class EndTransactions(SinkRequest[tuple[Ended | Gone, ...]]):
    ends: tuple[End, ...]

    def ask(self, cluster: SinkCluster) -> tuple[Ended | Gone, ...]:
        return cluster.end(self.ends)


@dataclass(frozen=True, slots=True)
class ListOpen(SinkRequest[tuple[OpenSinkTransaction, ...]]):
    sink_id: str

    def ask(self, cluster: SinkCluster) -> tuple[OpenSinkTransaction, ...]:
        return cluster.open_transactions(self.sink_id)


@dataclass(frozen=True, slots=True)
class SinkResult(Generic[R]):
    result: R


class SinkMachine(ABC, Generic[R]):
    """A pure machine that sends one request at a time."""

    def __init__(self) -> None:
        self._then: Callable[[Any], SinkRequest[Any] | SinkResult[R]] | None = None

    @abstractmethod
    def begin(self) -> "SinkRequest[Any] | SinkResult[R]": ...

    def step(self, answer: Any) -> "SinkRequest[Any] | SinkResult[R]":
        """Take an answer. Return the next request, or the result."""
        then, self._then = self._then, None
        assert then is not None, "an answer comes after a question"
        return then(answer)

    def _ask(
        self, question: SinkRequest[A], then: "Callable[[A], SinkRequest[Any] | SinkResult[R]]"
    ) -> SinkRequest[A]:
        self._then = then
        return question

    def _run(
        self, inner: "SinkMachine[T]", then: "Callable[[T], SinkRequest[Any] | SinkResult[R]]"
    ) -> "SinkRequest[Any] | SinkResult[R]":
        """Run another machine to its result, then continue with it."""
        return self._relay(inner, inner.begin(), then)

    def _relay(
        self,
        inner: "SinkMachine[T]",
        given: "SinkRequest[Any] | SinkResult[T]",
        then: "Callable[[T], SinkRequest[Any] | SinkResult[R]]",
    ) -> "SinkRequest[Any] | SinkResult[R]":
        if isinstance(given, SinkResult):
            return then(given.result)
        return self._ask(given, lambda answer: self._relay(inner, inner.step(answer), then))


def drive(machine: SinkMachine[R], cluster: SinkCluster) -> R:
    """Run a machine to its result."""
    given = machine.begin()
    while not isinstance(given, SinkResult):
        given = machine.step(given.ask(cluster))
    return given.result
