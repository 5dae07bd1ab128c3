"""Just enough of a broker for what transactions do in the shell: nothing happens by itself."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from penstock.broker.partitions.verified_producers import VerifiedProducers
from penstock.errors import KafkaError
from penstock.model import TopicPartition
from penstock.wire.batch import HEADER, Record, build_batch

HERE, THERE = 1, 2  # nodes


class FakeTimer:
    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class FakeWorld:
    """Clock and timers."""

    def __init__(self) -> None:
        self.now = 0.0
        self.clock = self.timers = self
        self._waiting: list[tuple[float, FakeTimer]] = []

    def mono_ms(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return int(self.now)

    def at(self, mono_ms: float, call: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(call)
        self._waiting.append((mono_ms, timer))
        return timer

    def advance(self, milliseconds: float) -> None:
        self.now += milliseconds
        due = [each for each in self._waiting if each[0] <= self.now]
        self._waiting = [each for each in self._waiting if each[0] > self.now]
        for _, timer in due:
            if timer.call is not None:
                timer.call()


class FakeRuntime:
    """Keeps what it is asked until the test answers."""

    def __init__(self) -> None:
        self.machine: object = object()
        self.asked: list[tuple[Any, Callable[[Any], None]]] = []
        self.at_once: list[Any] = []

    def submit(self, event: Any, done: Callable[[Any], None]) -> None:
        if self.at_once:
            self.asked.append((event, done))
            self.asked.pop()
            done(self.at_once.pop(0))
        else:
            self.asked.append((event, done))

    def answer(self, result: Any) -> Any:
        event, done = self.asked.pop(0)
        done(result)
        return event


class FakePartition:
    """What joins see of a partition."""

    def __init__(self, topic: str, index: int) -> None:
        self.topic, self.index = topic, index
        self.pending_verifications: dict[tuple[int, int], Any] = {}
        self.batches: list[tuple[Any, Any]] = []
        self.tickets: list[Any] = []
        self.start_at_zero: tuple[int, ...] = ()
        self.open: set[tuple[int, int]] = set()
        self.touched = self.gone = False
        self.leading = True
        self.leader = SimpleNamespace(epoch=0)
        self.verified_producers = VerifiedProducers()
        self.known: set[int] = set()  # producer ids
        self.log = SimpleNamespace(lost=None)

    def knows(self, producer_id: int) -> bool:
        return producer_id in self.known

    def has_open(self, producer_id: int, epoch: int) -> bool:
        return (producer_id, epoch) in self.open

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.index)

    @property
    def sequences(self) -> list[int]:
        """The first sequence of each batch that was let in."""
        return [header[11] for _, header in self.batches]


class FakeTarget:
    """Whoever produced; hears of refusals."""

    def __init__(self) -> None:
        self.errors: list[KafkaError] = []

    acks = 1

    def succeeded(self, _ticket: Any, _base_offset: int, _append_time_ms: int) -> None:
        """Do nothing: tests look at the log."""

    def denial(self, _topic: str, *, transactional: bool) -> None:
        assert transactional

    def failed(self, _ticket: Any, error: KafkaError) -> None:
        self.errors.append(error)


class FakeLinks:
    """Keeps the requests to other nodes until the test answers."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, Any]] = []
        self._waiting: list[Callable[[Any], None]] = []

    def send(
        self,
        node_id: int,
        message: Any,
        _expect: type,
        _purpose: object,
        _timeout_ms: float,
        answered: Callable[[Any], None],
    ) -> None:
        self.sent.append((node_id, message))
        self._waiting.append(answered)

    def answer(self, result: Any) -> None:
        self._waiting.pop(0)(result)


def fake_broker(**settings: Any) -> SimpleNamespace:
    """A broker whose transaction coordinator is `runtime`."""
    runtime = FakeRuntime()
    values = {
        "add.partitions.to.txn.retry.backoff.ms": 20,
        "add.partitions.to.txn.retry.backoff.max.ms": 100,
        "transaction.partition.verification.enable": True,
        **settings,
    }
    config = SimpleNamespace(integer=values.__getitem__, boolean=values.__getitem__)
    return SimpleNamespace(
        world=FakeWorld(),
        config=config,
        node_id=HERE,
        image=SimpleNamespace(topics={}),
        links=FakeLinks(),
        runtime=runtime,
        coordinators=SimpleNamespace(transaction_runtime=lambda _name: runtime),
        touch_partition=lambda partition: setattr(partition, "touched", True),
    )


def transactional(producer_id: int, epoch: int, sequence: int) -> tuple[memoryview, Any]:
    """A batch as it lies in a receive buffer, and its header."""
    data = build_batch(
        [Record(0, 0, None, b"v")],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )
    return memoryview(bytearray(data)), HEADER.unpack_from(data)
