"""Control records of the quorum: a type in the key, a small message in the value."""

import struct
from typing import Any

from penstock.wire.batch import Record
from penstock.wire.codec import read, write
from penstock.wire.records.quorum import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)

_KEY = struct.Struct(">hh")  # version of the key, type of the record
_KEY_VERSION = 0

_TYPES: dict[int, type[Any]] = {
    2: LeaderChangeMessage,
    3: SnapshotHeaderRecord,
    4: SnapshotFooterRecord,
    5: KRaftVersionRecord,
    6: VotersRecord,
}
_NUMBERS = {cls: number for number, cls in _TYPES.items()}


def control_record(offset: int, timestamp_ms: int, message: Any) -> Record:
    key = _KEY.pack(_KEY_VERSION, _NUMBERS[type(message)])
    return Record(offset, timestamp_ms, key, write(message, 0))


def read_control(record: Record) -> Any | None:
    """Return the message in a control record; None for an unknown type."""
    if record.key is None or record.value is None or len(record.key) < _KEY.size:
        return None
    cls = _TYPES.get(_KEY.unpack_from(record.key)[1])
    if cls is None:
        return None
    version = int.from_bytes(record.value[:2], "big", signed=True)
    # Every value begins with its own version; those we know read the newest they can.
    return read(cls, min(version, 1 if cls is LeaderChangeMessage else 0), record.value)
