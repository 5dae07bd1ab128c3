"""The seam between the protocol and a cluster: what is asked, what is answered, one at a time.

A machine (`Steps`) gives one question after the other and is told each answer. It can be driven to
its end (`drive`), or step by step by a simulation that lets others act in between. A question that
cannot be answered at all (nobody reachable, no rights) raises where it is asked, and the machine is
dropped: whoever comes next settles what it left.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from penstock.spark.sink.decisions import Decision, Driver, Producer
from penstock.spark.sink.identity import driver_id

A = TypeVar("A")
R = TypeVar("R")
T = TypeVar("T")


class End(NamedTuple):
    """An EndTxn. It counts only for this very producer: a late one ends nobody else's."""

    transactional_id: str
    producer: Producer
    commit: bool


class Ended(NamedTuple):
    """Done now or before; `producer` is who may write under the id from here on."""

    producer: Producer


class Gone(NamedTuple):
    """PRODUCER_FENCED, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE or INVALID_PRODUCER_ID_MAPPING:
    there is no such transaction any more."""

    reason: str


class OpenTransaction(NamedTuple):
    transactional_id: str
    producer: Producer
    started_ms: int


class SinkCluster(Protocol):
    """Each call repeats itself while the answer is only that the cluster is busy."""

    def take_over(self, transactional_id: str) -> Producer:
        """InitProducerId: whoever had the id is fenced, what it had open is settled."""
        ...

    def last_decision(self, sink_id: str) -> Decision | None:
        """The newest decision whose transaction was committed, up to the end of the log."""
        ...

    def append_decision(
        self, transactional_id: str, driver: Driver, decision: Decision
    ) -> Gone | None:
        """Write it in an open transaction of the driver."""
        ...

    def end(self, ends: Sequence[End]) -> tuple[Ended | Gone, ...]: ...

    def open_transactions(self, sink_id: str) -> tuple[OpenTransaction, ...]:
        """Those of the sink's workers that are neither committed nor aborted yet."""
        ...


class Question(ABC, Generic[A]):
    """What a machine wants to know or have done."""

    __slots__ = ()

    @abstractmethod
    def ask(self, cluster: SinkCluster) -> A: ...


@dataclass(frozen=True, slots=True)
class TakeOver(Question[Producer]):
    sink_id: str

    def ask(self, cluster: SinkCluster) -> Producer:
        return cluster.take_over(driver_id(self.sink_id))


@dataclass(frozen=True, slots=True)
class ReadDecision(Question[Decision | None]):
    sink_id: str

    def ask(self, cluster: SinkCluster) -> Decision | None:
        return cluster.last_decision(self.sink_id)


@dataclass(frozen=True, slots=True)
class AppendDecision(Question[Gone | None]):
    driver: Driver
    decision: Decision

    def ask(self, cluster: SinkCluster) -> Gone | None:
        name = driver_id(self.decision.sink_id)
        return cluster.append_decision(name, self.driver, self.decision)


@dataclass(frozen=True, slots=True)
class EndTransactions(Question[tuple[Ended | Gone, ...]]):
    ends: tuple[End, ...]

    def ask(self, cluster: SinkCluster) -> tuple[Ended | Gone, ...]:
        return cluster.end(self.ends)


@dataclass(frozen=True, slots=True)
class ListOpen(Question[tuple[OpenTransaction, ...]]):
    sink_id: str

    def ask(self, cluster: SinkCluster) -> tuple[OpenTransaction, ...]:
        return cluster.open_transactions(self.sink_id)


@dataclass(frozen=True, slots=True)
class Finished(Generic[R]):
    result: R


class Steps(ABC, Generic[R]):
    """A machine that asks one question at a time."""

    def __init__(self) -> None:
        self._then: Callable[[Any], Question[Any] | Finished[R]] | None = None

    @abstractmethod
    def begin(self) -> "Question[Any] | Finished[R]": ...

    def step(self, answer: Any) -> "Question[Any] | Finished[R]":
        """The next question, or what came of it all."""
        then, self._then = self._then, None
        assert then is not None, "an answer comes after a question"
        return then(answer)

    def _ask(
        self, question: Question[A], then: "Callable[[A], Question[Any] | Finished[R]]"
    ) -> Question[A]:
        self._then = then
        return question

    def _run(
        self, inner: "Steps[T]", then: "Callable[[T], Question[Any] | Finished[R]]"
    ) -> "Question[Any] | Finished[R]":
        """Another machine's questions first, then go on with its result."""
        return self._relay(inner, inner.begin(), then)

    def _relay(
        self,
        inner: "Steps[T]",
        given: "Question[Any] | Finished[T]",
        then: "Callable[[T], Question[Any] | Finished[R]]",
    ) -> "Question[Any] | Finished[R]":
        if isinstance(given, Finished):
            return then(given.result)
        return self._ask(given, lambda answer: self._relay(inner, inner.step(answer), then))


def drive(machine: Steps[R], cluster: SinkCluster) -> R:
    """Ask to the end."""
    given = machine.begin()
    while not isinstance(given, Finished):
        given = machine.step(given.ask(cluster))
    return given.result
