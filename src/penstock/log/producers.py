"""The state of each producer: its epoch, its last batches, its open transaction.

A state is an immutable tuple: a turn prepares the next states of many producers, and applies them
after the write. Hot path: that tuple is the only new object.
"""

import struct
from typing import Final, TypeAlias

from crc32c import crc32c

from penstock.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from penstock.log.transactions import Aborted
from penstock.wire.batch import (
    ABORT_MARKER,
    ATTRIBUTES,
    BASE_SEQUENCE,
    CONTROL,
    LAST_OFFSET_DELTA,
    MAX_TIMESTAMP,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    SEQUENCE_MAX,
    TRANSACTIONAL,
    Header,
)

# (last sequence, last offset, offset delta, timestamp) of one batch
BatchState: TypeAlias = tuple[int, int, int, int]
# (epoch, last sequence, last timestamp, coordinator epoch, first offset of the open transaction
# or -1, the last batches)
State: TypeAlias = tuple[int, int, int, int, int, tuple[BatchState, ...]]
EPOCH: Final = 0
LAST_SEQUENCE: Final = 1
LAST_TIMESTAMP: Final = 2
COORDINATOR_EPOCH: Final = 3
TXN_FIRST_OFFSET: Final = 4
BATCHES: Final = 5
# (marker type, coordinator epoch, timestamp)
Marker: TypeAlias = tuple[int, int, int]

# Duplicates are recognised among this many batches, which bounds requests in flight.
BATCHES_KEPT = 5
_OLDER_KEPT = BATCHES_KEPT - 1
UNKNOWN_STATE: State = (-1, -1, -1, -1, -1, ())

_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEAD = struct.Struct(">hIi")  # version, crc, count
_SNAPSHOT_CRC_START = 6
# producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch,
# first offset of the open transaction
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")


# A file that Kafka lacks, beside the snapshot of a clean stop: version, crc, end offset, then per
# producer its id and the number of batches that follow.
_WINDOW_VERSION = 1
_WINDOW_HEAD = struct.Struct(">hIq")
_WINDOW_CRC_START = 6
_WINDOW_PRODUCER = struct.Struct(">qb")
_WINDOW_BATCH = struct.Struct(">iqiq")


class CorruptSnapshot(Exception):
    """A damaged producer snapshot."""


def advance(
    state: State | None, header: Header, offset: int, start_at_zero: bool
) -> State | int | KafkaError:
    """Return the state after a batch at `offset`; for a duplicate its older offset. With
    `start_at_zero` an unknown producer must begin with sequence 0 (transactions v2)."""
    delta, timestamp = header[LAST_OFFSET_DELTA], header[MAX_TIMESTAMP]
    epoch, sequence = header[PRODUCER_EPOCH], header[BASE_SEQUENCE]
    if state is None or epoch != state[0] or sequence != state[1] + 1:
        other = _judge(state, header, start_at_zero)
        if other is not None:
            return other
        if state is None:
            state = UNKNOWN_STATE
    last_sequence = sequence + delta
    if last_sequence > SEQUENCE_MAX:
        last_sequence &= SEQUENCE_MAX
    elif sequence < 0:
        last_sequence = -1
    first_offset = state[4]
    if header[ATTRIBUTES] & TRANSACTIONAL:
        if first_offset < 0:
            first_offset = offset
    elif first_offset >= 0:
        return InvalidTxnState(f"producer {header[PRODUCER_ID]} has an open transaction")
    batch = (last_sequence, offset + delta, delta, timestamp)
    batches = (*state[5][-_OLDER_KEPT:], batch) if epoch == state[0] else (batch,)
    return (epoch, last_sequence, timestamp, state[3], first_offset, batches)


def _judge(state: State | None, header: Header, start_at_zero: bool) -> int | KafkaError | None:
    """Return None to accept a batch out of plain sequence, else the duplicate's offset
    or an error."""
    producer_id, epoch = header[PRODUCER_ID], header[PRODUCER_EPOCH]
    sequence = header[BASE_SEQUENCE]
    if state is None:
        if start_at_zero and sequence > 0:
            return OutOfOrderSequenceNumber(
                f"producer {producer_id} is not known here and began at sequence {sequence}"
            )
        return None
    if epoch < state[EPOCH]:
        return InvalidProducerEpoch(
            f"producer {producer_id} came with epoch {epoch}, its last was {state[EPOCH]}"
        )
    if sequence < 0:  # written by a coordinator: only the epoch counts
        return None
    if epoch > state[EPOCH]:
        if sequence != 0 and state[EPOCH] >= 0:
            return OutOfOrderSequenceNumber(
                f"producer {producer_id} began epoch {epoch} at sequence {sequence}, not 0"
            )
        return None
    delta = header[LAST_OFFSET_DELTA]
    for last_sequence, last_offset, last_delta, _ in state[BATCHES]:
        if last_delta == delta and (last_sequence - delta) & SEQUENCE_MAX == sequence:
            return last_offset - delta
    last_sequence = state[LAST_SEQUENCE]
    if sequence == 0 and last_sequence == SEQUENCE_MAX:
        return None
    return OutOfOrderSequenceNumber(
        f"producer {producer_id} sent sequence {sequence} after {last_sequence}"
    )


def check_marker(
    state: State | None, producer_epoch: int, coordinator_epoch: int, transactions_v2: bool
) -> None:
    """Reject the marker of an old epoch, or of a replaced coordinator."""
    if state is None:
        return
    if producer_epoch < state[EPOCH]:
        raise InvalidProducerEpoch(f"marker of epoch {producer_epoch}, the last was {state[EPOCH]}")
    # A late marker must not close the next transaction (KAFKA-17754). Version 2 bumps the epoch
    # with each marker, so an equal epoch is a retry and may only find nothing open (KAFKA-19999).
    if transactions_v2 and producer_epoch == state[EPOCH] and state[TXN_FIRST_OFFSET] >= 0:
        raise InvalidProducerEpoch(f"marker of epoch {producer_epoch} while that epoch writes")
    if coordinator_epoch < state[COORDINATOR_EPOCH]:
        raise TransactionCoordinatorFenced(
            f"marker of coordinator epoch {coordinator_epoch}, the last was "
            f"{state[COORDINATOR_EPOCH]}"
        )


class Producers:
    """All producers of one log, and the transactions that are open or not yet replicated."""

    __slots__ = ("ongoing", "states", "unreplicated")

    def __init__(self) -> None:
        self.states: dict[int, State] = {}
        # first offset -> producer id; ordered by offset, since offsets only rise
        self.ongoing: dict[int, int] = {}
        # (first offset, offset of the marker) of ended transactions, by marker
        self.unreplicated: list[tuple[int, int]] = []

    def commit(self, staged: dict[int, State], started: list[tuple[int, int]]) -> None:
        """Apply the prepared states after their write."""
        self.states.update(staged)
        for first_offset, producer_id in started:
            self.ongoing[first_offset] = producer_id

    def replay(self, header: Header, base_offset: int, marker: Marker | None) -> Aborted | None:
        """Apply a batch that was accepted before; return the aborted transaction that it ends, or
        None."""
        producer_id = header[PRODUCER_ID]
        if producer_id < 0:
            return None
        state = self.states.get(producer_id, UNKNOWN_STATE)
        epoch = header[PRODUCER_EPOCH]
        if header[ATTRIBUTES] & CONTROL:
            return self._end(producer_id, state, epoch, base_offset, marker) if marker else None
        delta, timestamp = header[LAST_OFFSET_DELTA], header[MAX_TIMESTAMP]
        sequence = header[BASE_SEQUENCE]
        last_sequence = (sequence + delta) & SEQUENCE_MAX if sequence >= 0 else -1
        first_offset = state[TXN_FIRST_OFFSET]
        if header[ATTRIBUTES] & TRANSACTIONAL and first_offset < 0:
            first_offset = base_offset
            self.ongoing[base_offset] = producer_id
        batch = (last_sequence, base_offset + delta, delta, timestamp)
        batches = (*state[BATCHES][-_OLDER_KEPT:], batch) if epoch == state[EPOCH] else (batch,)
        self.states[producer_id] = (
            epoch,
            last_sequence,
            timestamp,
            state[COORDINATOR_EPOCH],
            first_offset,
            batches,
        )
        return None

    def _end(
        self, producer_id: int, state: State, epoch: int, offset: int, marker: Marker
    ) -> Aborted | None:
        kind, coordinator_epoch, timestamp = marker
        same = epoch == state[EPOCH]
        self.states[producer_id] = (
            epoch,
            state[LAST_SEQUENCE] if same else -1,
            timestamp,
            coordinator_epoch,
            -1,
            state[BATCHES] if same else (),
        )
        first_offset = state[TXN_FIRST_OFFSET]
        if first_offset < 0:
            return None
        self.ongoing.pop(first_offset, None)
        self.unreplicated.append((first_offset, offset))
        if kind != ABORT_MARKER:
            return None
        return Aborted(producer_id, first_offset, offset, next(iter(self.ongoing), offset + 1))

    def first_unstable(self, high_watermark: int) -> int | None:
        """Return the first offset of a transaction that is open, or whose marker
        is not replicated."""
        if self.unreplicated and self.unreplicated[0][1] < high_watermark:
            self.unreplicated = [each for each in self.unreplicated if each[1] >= high_watermark]
        first = next(iter(self.ongoing), None)
        for first_offset, _ in self.unreplicated:
            if first is None or first_offset < first:
                first = first_offset
        return first

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers without recent batches and open transactions; return how many."""
        gone = [
            producer_id
            for producer_id, state in self.states.items()
            if state[TXN_FIRST_OFFSET] < 0 and now_ms - state[LAST_TIMESTAMP] >= expiration_ms
        ]
        for producer_id in gone:
            del self.states[producer_id]
        return len(gone)

    def clear(self) -> None:
        self.states.clear()
        self.ongoing.clear()
        self.unreplicated.clear()

    def to_snapshot(self) -> bytes:
        """Return the bytes of Kafka's .snapshot file."""
        parts = [struct.pack(">i", len(self.states))]
        for producer_id, state in self.states.items():
            epoch, last_sequence, timestamp, coordinator_epoch, first_offset, batches = state
            last_offset, delta = batches[-1][1:3] if batches else (-1, 0)
            parts.append(
                _SNAPSHOT_ENTRY.pack(
                    producer_id,
                    epoch,
                    last_sequence if batches else -1,
                    last_offset,
                    delta,
                    timestamp,
                    coordinator_epoch,
                    first_offset,
                )
            )
        body = b"".join(parts)
        return struct.pack(">hI", _SNAPSHOT_VERSION, crc32c(body)) + body

    def to_window(self, end_offset: int) -> bytes | None:
        """Return the batches that Kafka's snapshot lacks. The snapshot keeps one batch per
        producer, but a producer whose responses were lost may resend any of the last five."""
        parts = []
        for producer_id, state in self.states.items():
            batches = state[BATCHES]
            if len(batches) > 1:
                parts.append(_WINDOW_PRODUCER.pack(producer_id, len(batches)))
                parts += (_WINDOW_BATCH.pack(*batch) for batch in batches)
        if not parts:
            return None
        body = struct.pack(">q", end_offset) + b"".join(parts)
        return struct.pack(">hI", _WINDOW_VERSION, crc32c(body)) + body

    def load_window(self, data: bytes, end_offset: int) -> None:
        """Load the batches of a clean stop at `end_offset`; ignore any other file."""
        if len(data) < _WINDOW_HEAD.size:
            return
        version, crc, written_at = _WINDOW_HEAD.unpack_from(data)
        known = version == _WINDOW_VERSION and written_at == end_offset
        if not known or crc32c(data[_WINDOW_CRC_START:]) != crc:
            return
        position = _WINDOW_HEAD.size
        while position < len(data):
            producer_id, count = _WINDOW_PRODUCER.unpack_from(data, position)
            position += _WINDOW_PRODUCER.size
            end = position + count * _WINDOW_BATCH.size
            batches = tuple(_WINDOW_BATCH.iter_unpack(data[position:end]))
            position = end
            state = self.states.get(producer_id)
            if state is not None and state[BATCHES][-1:] == batches[-1:]:
                self.states[producer_id] = (*state[:BATCHES], batches)

    def load_snapshot(self, data: bytes, now_ms: int, expiration_ms: int) -> None:
        """Load a snapshot; raise CorruptSnapshot, with nothing changed, if it is damaged."""
        if len(data) < _SNAPSHOT_HEAD.size:
            raise CorruptSnapshot("the snapshot is cut short")
        version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
        if version != _SNAPSHOT_VERSION:
            raise CorruptSnapshot(f"unknown version {version}")
        if crc32c(data[_SNAPSHOT_CRC_START:]) != crc:
            raise CorruptSnapshot("the checksum does not match")
        if len(data) != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size:
            raise CorruptSnapshot(f"{count} producers do not fit the size of the file")
        self.clear()
        started: list[tuple[int, int]] = []
        for entry in _SNAPSHOT_ENTRY.iter_unpack(memoryview(data)[_SNAPSHOT_HEAD.size :]):
            producer_id, epoch, last_sequence, last_offset, delta, timestamp = entry[:6]
            coordinator_epoch, first_offset = entry[6:]
            if first_offset < 0 and now_ms - timestamp >= expiration_ms:
                continue
            batches: tuple[BatchState, ...] = ()
            if last_offset >= 0:
                batches = ((last_sequence, last_offset, delta, timestamp),)
            self.states[producer_id] = (
                epoch,
                last_sequence,
                timestamp,
                coordinator_epoch,
                first_offset,
                batches,
            )
            if first_offset >= 0:
                started.append((first_offset, producer_id))
        self.ongoing.update(sorted(started))
