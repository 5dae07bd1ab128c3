"""A transaction coordinator told as a story: events in, records, answers and sends out.

What the runtime would do is done here by hand and at once: records are replayed as soon as they
are decided, and pass through Kafka's own bytes on the way.
"""

from dataclasses import replace
from typing import Any

from penstock.coordinator.batches import decode, encode
from penstock.coordinator.records import CoordinatorRecord
from penstock.coordinator.transactions.events import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
    MarkersWritten,
    NeedsProducerId,
    ProducerIdAndEpoch,
    ProducerTakenOver,
    VerifyPartitions,
    WriteMarkers,
)
from penstock.coordinator.transactions.machine import TransactionCoordinator
from penstock.coordinator.transactions.state import TransactionMetadata, TxnProducerIdentity
from penstock.coordinator.transactions.transaction_settings import TransactionSettings
from penstock.effects import CancelTimer, Outcome, SetTimer
from penstock.errors import KafkaError, KafkaStorageError
from penstock.model import TopicPartition
from penstock.wire.batch import HEADER
from penstock.wire.records.coordinator import TRANSACTION_RECORDS

NOW_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000
COORDINATOR_EPOCH = 7
NAME = "payments"
A0, A1, B0 = (TopicPartition(*each) for each in (("a", 0), ("a", 1), ("b", 0)))


class Story:
    """One coordinator, its clock, its timers and everything that it wrote."""

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.settings = settings or TransactionSettings()
        self.now_ms = NOW_MS
        self.machine = self._machine()
        self.written: list[CoordinatorRecord] = []
        self.sent: list[WriteMarkers] = []
        self.taken_over: list[ProducerTakenOver] = []
        self.timers: dict[str, tuple[int, Any]] = {}
        self.next_producer_id = 1000
        self.refuses = False  # the log takes nothing

    def _machine(self) -> TransactionCoordinator:
        return TransactionCoordinator(self.settings, COORDINATOR_EPOCH)

    # ---- what happens

    def tell(self, event: Any) -> Any:
        """The answer, as the runtime would give it."""
        try:
            outcome = self.machine.handle(event, self.now_ms)
        except KafkaError as error:
            return error
        return self._perform(outcome)

    def _perform(self, outcome: Outcome) -> Any:
        if outcome.records and self.refuses:
            return KafkaStorageError("the disk is full")
        for record in self._through_bytes(outcome.records):
            self.written.append(record)
            self.machine.replay(record)
        for timer in outcome.timers:
            self.timers.pop(timer.name, None)
            if isinstance(timer, SetTimer):
                self.timers[timer.name] = (self.now_ms + int(timer.after_ms), timer.event)
            else:
                assert isinstance(timer, CancelTimer)
        self.sent += [each for each in outcome.sends if isinstance(each, WriteMarkers)]
        self.taken_over += [each for each in outcome.sends if isinstance(each, ProducerTakenOver)]
        return outcome.reply

    def _through_bytes(self, records: Any) -> list[CoordinatorRecord]:
        if not records:
            return []
        batch = encode(records, self.now_ms)
        return decode(TRANSACTION_RECORDS, batch, HEADER.unpack_from(batch))  # type: ignore[return-value]

    def restart(self) -> None:
        """Everything but the log is lost."""
        self.machine, self.timers, self.sent = self._machine(), {}, []
        for record in self.written:
            self.machine.replay(record)
        self._perform(self.machine.loaded(self.now_ms))

    def wait(self, milliseconds: int) -> None:
        """Let time pass; timers fire in their order."""
        until = self.now_ms + milliseconds
        while self.timers:
            name, (due_ms, event) = min(self.timers.items(), key=lambda each: each[1][0])
            if due_ms > until:
                break
            del self.timers[name]
            self.now_ms = max(self.now_ms, due_ms)
            self.tell(event)
        self.now_ms = until

    # ---- what clients ask

    def begin(self, name: str = NAME, timeout_ms: int = TIMEOUT_MS, **more: Any) -> Any:
        """InitProducerId, with an id drawn if it needs one."""
        event = InitProducer(name, timeout_ms, **more)
        answer = self.tell(event)
        if isinstance(answer, NeedsProducerId):
            self.next_producer_id += 1
            answer = self.tell(replace(event, new_producer_id=self.next_producer_id))
        return answer

    def add(
        self,
        producer: ProducerIdAndEpoch,
        *places: TopicPartition,
        name: str = NAME,
        v2: bool = True,
    ) -> Any:
        return self.tell(
            AddPartitions(name, producer.producer_id, producer.producer_epoch, places, v2)
        )

    def verify(
        self, producer: ProducerIdAndEpoch, *places: TopicPartition, name: str = NAME
    ) -> Any:
        return self.tell(
            VerifyPartitions(name, producer.producer_id, producer.producer_epoch, places)
        )

    def commit(self, producer: ProducerIdAndEpoch, **more: Any) -> Any:
        return self.end(producer, committed=True, **more)

    def abort(self, producer: ProducerIdAndEpoch, **more: Any) -> Any:
        return self.end(producer, committed=False, **more)

    def end(
        self, producer: ProducerIdAndEpoch, *, committed: bool, name: str = NAME, v2: bool = True
    ) -> Any:
        event = EndTransaction(name, producer.producer_id, producer.producer_epoch, committed, v2)
        answer = self.tell(event)
        if isinstance(answer, NeedsProducerId):
            self.next_producer_id += 1
            answer = self.tell(replace(event, new_producer_id=self.next_producer_id))
        return answer

    def write_markers(self) -> list[WriteMarkers]:
        """All partitions get what was sent to them, and say so."""
        sent, self.sent = self.sent, []
        for each in sent:
            self.tell(MarkersWritten(each.transactional_id, each.producer_id, each.producer_epoch))
        return sent

    # ---- what is so

    def transaction(self, name: str = NAME) -> TransactionMetadata:
        found = self.tell(DescribeTransaction(name))
        assert isinstance(found, TransactionMetadata)
        return found

    @property
    def status(self) -> str:
        return self.transaction().status.title

    def at_epoch(self, epoch: int, name: str = NAME) -> ProducerIdAndEpoch:
        """The producer of an id, moved to an epoch as if it had gone through all before."""
        known = self.transaction(name)
        moved = replace(known, producer=TxnProducerIdentity(known.producer.producer_id, epoch))
        self._perform(Outcome(records=[moved.record()]))
        return ProducerIdAndEpoch(*moved.producer)


def error_of(answer: Any) -> str:
    """The name of an error as Kafka spells it."""
    assert isinstance(answer, KafkaError), f"not an error: {answer}"
    return answer.kafka_name()


def on(producer: ProducerIdAndEpoch, epoch: int) -> ProducerIdAndEpoch:
    """The same producer id with another epoch."""
    return ProducerIdAndEpoch(producer.producer_id, epoch)
