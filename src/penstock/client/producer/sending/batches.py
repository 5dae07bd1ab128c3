"""Batches: many records to one topic in one call, reported together.

Runs of plain records go to librdkafka in one call each, which knows no headers, times or partitions
of single records. The others go one by one, in order. All records are serialized before the first
one is sent.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import Any, TypeAlias

from penstock.client.failures import TimedOut
from penstock.client.producer.delivery.delivery_errors import BatchFailed, FailedRecord
from penstock.client.producer.delivery.delivery_tracker import BatchDelivered, BatchReport
from penstock.client.producer.sending.core import ProducerCore
from penstock.client.producer.sending.encoding import (
    LIBRARY_CHOOSES,
    EncodedRecord,
    NotSerializedYet,
    RecordEncoder,
    UnserializedRecord,
)
from penstock.client.records import OutRecord

# The limit of one call; other tasks run between two calls.
CALL_RECORDS_MAX = 2_000
QUEUE_FULL = -184

# A record of librdkafka's batch call.
PlainRecord: TypeAlias = dict[str, Any]
# A record for a call of its own, a pair of key and value, or a value.
Piece: TypeAlias = EncodedRecord | tuple[bytes | None, bytes | None] | bytes


class SerializedBatch:
    """The records of a batch as bytes; a tuple of two is key and value."""

    def __init__(
        self, topic: str, records: Iterable[Any], partition: int | None, encoder: RecordEncoder
    ) -> None:
        self._topic = topic
        self._given = records if isinstance(records, list) else list(records)
        self._partition = partition
        self._encoder = encoder
        self._late: UnserializedRecord | None = None
        self.made: list[Piece] = []

    def make(self) -> UnserializedRecord | None:
        """Encode up to the end, or up to a record whose serializer has a question; the next call
        goes on there."""
        given, made, encoder = self._given, self.made, self._encoder
        if encoder.plain:
            kinds = set(map(type, given))
            if kinds <= {bytes} or (kinds <= {tuple} and _are_pairs_of_bytes(given)):
                self.made = given
                return None
        try:
            if self._late is not None:  # already intercepted
                made.append(self._piece(encoder.write(self._late)))
                self._late = None
            for each in given[len(made) :] if made else given:
                made.append(self._piece(_encoded(self._topic, each, self._partition, encoder)))
        except NotSerializedYet as late:
            self._late = late.unwritten
            return late.unwritten
        return None

    def _piece(self, encoded: EncodedRecord) -> Piece:
        encoder, partition = self._encoder, self._partition
        full = self._topic if encoder.names is None else encoder.names[self._topic]
        place = (full, LIBRARY_CHOOSES if partition is None else partition)
        if encoded.headers or encoded.timestamp_ms:
            return encoded
        is_usual = (encoded.topic, encoded.partition) == place
        return (encoded.key, encoded.value) if is_usual else encoded


def pieces_of(
    topic: str, records: Iterable[Any], partition: int | None, encoder: RecordEncoder
) -> list[Piece]:
    """Encode a batch with serializers that may block."""
    pieces = SerializedBatch(topic, records, partition, encoder)
    late = pieces.make()
    assert late is None, "a serializer that may wait asks for itself"
    return pieces.made


def _are_pairs_of_bytes(given: list[Any]) -> bool:
    return all(
        len(each) == 2
        and (each[0] is None or type(each[0]) is bytes)
        and (each[1] is None or type(each[1]) is bytes)
        for each in given
    )


def _encoded(topic: str, said: Any, partition: int | None, encoder: RecordEncoder) -> EncodedRecord:
    if isinstance(said, OutRecord):
        wanted = partition if said.partition is None else said.partition
        return encoder.encode(topic, said.value, said.key, wanted, said.headers, said.timestamp_ms)
    if isinstance(said, tuple):
        if len(said) != 2:
            raise ValueError(
                f"a tuple in a batch is a pair of key and value, not {len(said)} things; a value "
                "that is a tuple goes into an OutRecord"
            )
        return encoder.encode(topic, said[1], said[0], partition, None, None)
    return encoder.encode(topic, said, None, partition, None, None)


def _plain_records(run: list[Piece]) -> list[PlainRecord]:
    """Return a run for librdkafka's batch call."""
    if type(run[0]) is bytes:
        return [{"value": value} for value in run]
    return [{"key": key, "value": value} for key, value in run]  # type: ignore[misc]


def key_and_value(piece: Piece) -> tuple[bytes | None, bytes | None]:
    if isinstance(piece, EncodedRecord):
        return piece.key, piece.value
    return (None, piece) if isinstance(piece, bytes) else piece


class BatchSender:
    """A batch on its way to librdkafka, run by run."""

    def __init__(
        self,
        core: ProducerCore,
        topic: str,
        pieces: list[Piece],
        partition: int | None,
        wake: Callable[[], None],
    ) -> None:
        """Take all records of the batch as `pieces`; `wake` is called when all are reported."""
        if partition is not None and partition < 0:
            raise ValueError(f"partition {partition} of {topic}: partitions are counted from 0")
        self._core = core
        self._topic = topic
        self._full = core.namespace.add_topic(topic)
        self._partition = LIBRARY_CHOOSES if partition is None else partition
        self._pieces = pieces
        self._uniform = EncodedRecord not in set(map(type, self._pieces))
        self._position = 0
        self._handed = 0
        # Records that librdkafka rejected, by position.
        self._refused: dict[int, Exception] = {}
        self.report = BatchReport(core.tracker.window, len(self._pieces), wake)

    @property
    def over(self) -> bool:
        """Return whether every record was offered to librdkafka."""
        return self._position >= len(self._pieces)

    def step(self) -> bool:
        """Hand over the next run; return False if some of it found no room."""
        begin = self._position
        first = self._pieces[begin]
        if isinstance(first, EncodedRecord):
            return self._single(begin, first)
        pieces = self._pieces[begin : begin + CALL_RECORDS_MAX]
        if not self._uniform:
            pieces = list(takewhile(lambda piece: type(piece) is not EncodedRecord, pieces))
        run = _plain_records(pieces)
        try:
            good = self._core.handle.produce_batch(
                self._full, run, self._partition, self.report.report
            )
        except Exception as error:
            self.give_up(self._core.refused(error, self._full))
            return True
        if good == len(run):
            self._handed += good
            self._position = begin + good
            return True
        return self._look(begin, run)

    def _single(self, index: int, encoded: EncodedRecord) -> bool:
        try:
            self._core.hand_over(encoded, self.report.report)
        except BufferError:
            return False
        except Exception as error:
            self._refused[index] = error
        else:
            self._handed += 1
        self._position = index + 1
        return True

    def _look(self, begin: int, run: list[PlainRecord]) -> bool:
        """Find the rejected records of a run. After a full queue all further ones are rejected."""
        for number, piece in enumerate(run):
            error = piece.get("_error")
            if error is None:
                self._handed += 1
            elif error.code() == QUEUE_FULL:
                self._position = begin + number
                return False
            else:
                self._refused[begin + number] = self._core.refused(Exception(error), self._full)
        self._position = begin + len(run)
        return True

    def give_up(self, error: Exception) -> None:
        """Fail the remaining records without sending them."""
        for index in range(self._position, len(self._pieces)):
            self._refused[index] = error
        self._position = len(self._pieces)

    def all_handed(self) -> None:
        """End the steps: only handed-over records will be reported."""
        self.report.expected = self._handed

    def leave(self, timeout_s: float | None = None) -> TimedOut:
        """Stop waiting: records in flight stay so, the rest fails; the next flush() or close()
        raises the failures."""
        after = "" if timeout_s is None else f" within {timeout_s:g} s"
        unsent = len(self._pieces) - self._position
        self.give_up(TimedOut(f"there was no room for a record of a batch{after}"))
        self.all_handed()
        for index, error in sorted(self._refused.items()):
            failed = FailedRecord(self._topic, *key_and_value(self._pieces[index]), error, index)
            self._core.tracker.keep_post(failed)
        self.report.leave()
        count = len(self._pieces)
        return TimedOut(
            f"a batch of {count} records for {self._topic} was not delivered{after}"
            + (f", and {unsent} of them were not sent" if unsent else ""),
            next_step="What is under way stays so: flush() or close() tells which records failed",
        )

    def result(self) -> BatchDelivered:
        """Return the delivered batch; raise BatchFailed unless all records are delivered."""
        if not self._refused and not self.report.failed:
            return BatchDelivered(self._topic, len(self._pieces))
        failures = dict(self._refused)
        failures.update(self._reported_failures())
        found = [
            FailedRecord(self._topic, *key_and_value(self._pieces[index]), failures[index], index)
            for index in sorted(failures)
        ]
        raise BatchFailed(found, len(self._pieces) - len(found))

    def _reported_failures(self) -> Iterator[tuple[int, Exception]]:
        """Return failures with positions; among equal records any position is right."""
        if not self.report.failed:
            return
        places: dict[tuple[bytes | None, bytes | None], list[int]] = {}
        for index in range(len(self._pieces) - 1, -1, -1):
            if index not in self._refused:
                places.setdefault(key_and_value(self._pieces[index]), []).append(index)
        tracker = self._core.tracker
        for error, message in self.report.failed:
            index = places[message.key(), message.value()].pop()
            yield index, tracker.failure(error, message)
