"""Coordinator records <-> record batches, in Kafka's own encoding.

Records of types that we do not know are passed over: a newer server may have written them. An
unreadable record costs no other record of its batch.
"""

from collections.abc import Callable, Sequence
from functools import partial

from penstock.coordinator.offset_batches import NO_EXPIRY, KeyAndValue, read_quickly, write_quickly
from penstock.coordinator.records import (
    CoordinatorRecord,
    EndMarker,
    PendingOffset,
    UnreadableRecord,
)
from penstock.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from penstock.wire import batch as batches
from penstock.wire.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    TRANSACTIONAL,
)
from penstock.wire.compression import compress, decompress
from penstock.wire.primitives import Buffer, Malformed, UnknownRecord
from penstock.wire.records import group, transaction
from penstock.wire.records.coordinator import (
    GROUP_RECORDS,
    Family,
    read_coordinator_key,
    read_coordinator_value,
    write_coordinator_key,
    write_coordinator_value,
)

# The versions that Kafka 4.3 writes. A commit with its own expiry needs the version that has it.
_VERSIONS: dict[type, int] = {
    group.OffsetCommitValue: 4,
    group.GroupMetadataValue: 3,
    transaction.TransactionLogValue: 1,
}
_OFFSET_WITH_EXPIRY = 1
# Gets the offset of a record whose key cannot be read, and the reason.
UnreadableKeyCallback = Callable[[int, Malformed], None]
_NO_PRODUCER = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)


def value_version(value: object) -> int:
    """Return the version in which a value is written."""
    if isinstance(value, group.OffsetCommitValue) and value.expire_timestamp != NO_EXPIRY:
        return _OFFSET_WITH_EXPIRY
    return _VERSIONS.get(type(value), 0)


def encode(
    records: Sequence[CoordinatorRecord | PendingOffset], now_ms: int, compression: int = 0
) -> bytes:
    """Return one batch with the records. Pending records are all of one producer."""
    payload = write_quickly(records)
    if payload is None:
        payload = encode_plainly(records)
    attributes, producer = compression, _NO_PRODUCER
    first = records[0]
    if isinstance(first, PendingOffset):
        attributes |= TRANSACTIONAL
        producer = (first.producer_id, first.producer_epoch, NO_SEQUENCE)
    return batches.seal_batch(
        compress(compression, payload),
        attributes,
        len(records),
        last_delta=len(records) - 1,
        times_ms=(now_ms, now_ms),
        producer=producer,
    )


def encode_plainly(records: Sequence[CoordinatorRecord | PendingOffset]) -> bytes:
    """Return the records of a batch as the general codec writes them, all with one timestamp."""
    payload = bytearray()
    for number, record in enumerate(records):
        batches.write_record(payload, 0, number, *write_record(record.key, record.value))
    return bytes(payload)


def write_record(key: object, value: object | None) -> tuple[bytes, bytes | None]:
    """Return a key and its value as they are stored."""
    return write_coordinator_key(key), (
        None if value is None else write_coordinator_value(value, value_version(value))
    )


def _pass_over(_offset: int, _reason: Malformed) -> None:
    pass


def decode(
    family: Family,
    batch: Buffer,
    header: batches.Header,
    unreadable_key: UnreadableKeyCallback = _pass_over,
) -> Sequence[CoordinatorRecord | PendingOffset | EndMarker | UnreadableRecord]:
    """Return the content of a batch. Raise Malformed if its bytes contradict its header."""
    (_, length, _, _, _, attributes, _, _, _, producer_id, producer_epoch, _, count) = header
    if attributes & CONTROL:
        marker = batches.read_marker(batch)
        if marker is None:
            return []
        kind, coordinator_epoch, _timestamp = marker
        committed = kind == batches.COMMIT_MARKER
        return [EndMarker(producer_id, producer_epoch, coordinator_epoch, committed)]
    pairs = None
    if family is GROUP_RECORDS:
        data = batch[HEADER_BYTES : LENGTH_OVERHEAD + length]
        if codec := attributes & CODEC_MASK:
            data = decompress(codec, data)
        pairs = read_quickly(bytes(data), count)
    make: Callable[..., CoordinatorRecord | PendingOffset] = CoordinatorRecord
    if attributes & TRANSACTIONAL:
        make = partial(PendingOffset, producer_id, producer_epoch)
    if pairs is None:
        return [
            each if isinstance(each, UnreadableRecord) else make(*each)
            for each in read_plainly(family, batch, unreadable_key)
        ]
    if attributes & TRANSACTIONAL:
        return [make(*pair) for pair in pairs]
    new = tuple.__new__  # half the price of the named constructor, a million times
    return [new(CoordinatorRecord, pair) for pair in pairs]


def read_plainly(
    family: Family, batch: Buffer, unreadable_key: UnreadableKeyCallback = _pass_over
) -> list[KeyAndValue | UnreadableRecord]:
    """Return the keys and values of any batch, by the general codec."""
    pairs: list[KeyAndValue | UnreadableRecord] = []
    for raw in batches.read_records(batch):
        if raw.key is None:
            continue
        try:
            key = read_coordinator_key(family, raw.key)
        except UnknownRecord:
            continue
        except Malformed as problem:
            unreadable_key(raw.offset, problem)
            continue
        value = None
        if raw.value is not None:
            try:
                value, _version = read_coordinator_value(family, key, raw.value)
            except Malformed as problem:
                pairs.append(UnreadableRecord(key, str(problem)))
                continue
        pairs.append((key, value))
    return pairs
