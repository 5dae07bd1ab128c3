"""Batches: many records to one topic in one call, reported together.

Runs of records that need nothing special go to librdkafka in one call each, which knows neither
headers nor times nor partitions of single records; the others go one by one, in their order.
What has to be serialized is serialized before the first record leaves.
"""

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Any, TypeAlias

from penstock.client.failures import TimedOut
from penstock.client.producer.core import Core
from penstock.client.producer.encoding import (
    LIBRARY_CHOOSES,
    Encoded,
    Encoder,
    NotWrittenYet,
    Unwritten,
)
from penstock.client.producer.ledger import BatchDelivered, BatchReport, Woken
from penstock.client.producer.undelivered import BatchFailed, FailedRecord
from penstock.client.records import OutRecord

# One call of librdkafka takes so many; between two calls others get their turn.
CALL_RECORDS_MAX = 2_000
QUEUE_FULL = -184

# A record as librdkafka takes it among others.
Plainly: TypeAlias = dict[str, Any]
# What librdkafka takes alone, a pair of key and value, or a value: the last two as bytes.
Piece: TypeAlias = Encoded | tuple[bytes | None, bytes | None] | bytes


class Pieces:
    """The records of a batch as bytes, one after the other; a tuple of two is key and value."""

    def __init__(
        self, topic: str, records: Iterable[Any], partition: int | None, encoder: Encoder
    ) -> None:
        self._topic = topic
        self._given = records if isinstance(records, list) else list(records)
        self._partition = partition
        self._encoder = encoder
        self._late: Unwritten | None = None
        self.made: list[Piece] = []

    def make(self) -> Unwritten | None:
        """Up to the end, or to a record whose serializer has to ask first: then go on here."""
        given, made, encoder = self._given, self.made, self._encoder
        if encoder.plain:
            kinds = set(map(type, given))
            if kinds <= {bytes} or (kinds <= {tuple} and _are_pairs_of_bytes(given)):
                self.made = given
                return None
        try:
            if self._late is not None:  # interceptors have seen it
                made.append(self._piece(encoder.write(self._late)))
                self._late = None
            for each in given[len(made) :] if made else given:
                made.append(self._piece(_encoded(self._topic, each, self._partition, encoder)))
        except NotWrittenYet as late:
            self._late = late.unwritten
            return late.unwritten
        return None

    def _piece(self, encoded: Encoded) -> Piece:
        encoder, partition = self._encoder, self._partition
        full = self._topic if encoder.names is None else encoder.names[self._topic]
        place = (full, LIBRARY_CHOOSES if partition is None else partition)
        if encoded.headers or encoded.timestamp_ms:
            return encoded
        is_usual = (encoded.topic, encoded.partition) == place
        return (encoded.key, encoded.value) if is_usual else encoded


def pieces_of(
    topic: str, records: Iterable[Any], partition: int | None, encoder: Encoder
) -> list[Piece]:
    """Where serializers may wait."""
    pieces = Pieces(topic, records, partition, encoder)
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


def _encoded(topic: str, said: Any, partition: int | None, encoder: Encoder) -> Encoded:
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


def _plainly(run: list[Piece]) -> list[Plainly]:
    """A run as librdkafka takes it."""
    if type(run[0]) is bytes:
        return [{"value": value} for value in run]
    return [{"key": key, "value": value} for key, value in run]  # type: ignore[misc]


def key_and_value(piece: Piece) -> tuple[bytes | None, bytes | None]:
    if isinstance(piece, Encoded):
        return piece.key, piece.value
    return (None, piece) if isinstance(piece, bytes) else piece


class BatchSending:
    """A batch on its way to librdkafka, step by step, and what becomes of it."""

    def __init__(
        self, core: Core, topic: str, pieces: list[Piece], partition: int | None, waiter: Woken
    ) -> None:
        """`pieces` are all records of the batch."""
        if partition is not None and partition < 0:
            raise ValueError(f"partition {partition} of {topic}: partitions are counted from 0")
        self._core = core
        self._topic = topic
        self._full = core.namespace.add_topic(topic)
        self._partition = LIBRARY_CHOOSES if partition is None else partition
        self._pieces = pieces
        self._uniform = Encoded not in set(map(type, self._pieces))
        self._position = 0
        self._handed = 0
        # By place in the batch: librdkafka did not take these.
        self._refused: dict[int, Exception] = {}
        self.report = BatchReport(core.ledger.page, len(self._pieces), waiter)

    @property
    def over(self) -> bool:
        """Whether nothing is left to hand over."""
        return self._position >= len(self._pieces)

    def step(self) -> bool:
        """Hand over the next run; False if there was no room for some of it."""
        begin = self._position
        first = self._pieces[begin]
        if isinstance(first, Encoded):
            return self._single(begin, first)
        pieces = self._pieces[begin : begin + CALL_RECORDS_MAX]
        if not self._uniform:
            pieces = list(takewhile(lambda piece: type(piece) is not Encoded, pieces))
        run = _plainly(pieces)
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

    def _single(self, index: int, encoded: Encoded) -> bool:
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

    def _look(self, begin: int, run: list[Plainly]) -> bool:
        """Which of a run were not taken, and why. Once the queue is full, none that follow are."""
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
        """What is left is not sent."""
        for index in range(self._position, len(self._pieces)):
            self._refused[index] = error
        self._position = len(self._pieces)

    def all_handed(self) -> None:
        """No more steps: what was handed over will be reported, nothing else."""
        self.report.expected = self._handed

    def leave(self, timeout_s: float | None = None) -> TimedOut:
        """Nobody waits for it any more. What is under way stays so and what was not taken is given
        up; the next flush(), or close(), tells which were not delivered."""
        after = "" if timeout_s is None else f" within {timeout_s:g} s"
        unsent = len(self._pieces) - self._position
        self.give_up(TimedOut(f"there was no room for a record of a batch{after}"))
        self.all_handed()
        for index, error in sorted(self._refused.items()):
            failed = FailedRecord(self._topic, *key_and_value(self._pieces[index]), error, index)
            self._core.ledger.keep_post(failed)
        self.report.leave()
        count = len(self._pieces)
        return TimedOut(
            f"a batch of {count} records for {self._topic} was not delivered{after}"
            + (f", and {unsent} of them were not sent" if unsent else ""),
            next_step="What is under way stays so: flush() or close() tells which records failed",
        )

    def result(self) -> BatchDelivered:
        """Raises BatchFailed unless all are delivered."""
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
        """With their places in the batch: of records that are equal any one is right."""
        if not self.report.failed:
            return
        places: dict[tuple[bytes | None, bytes | None], list[int]] = {}
        for index in range(len(self._pieces) - 1, -1, -1):
            if index not in self._refused:
                places.setdefault(key_and_value(self._pieces[index]), []).append(index)
        ledger = self._core.ledger
        for error, message in self.report.failed:
            index = places[message.key(), message.value()].pop()
            yield index, ledger.failure(error, message)
