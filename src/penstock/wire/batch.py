"""Record batches of format 2, the only format that is stored, produced and fetched.

The broker reads the header and the checksum, never the records. Functions that unpack records are
for clients, compaction, timestamps inside a batch and control records. On the hot path a header is
the plain tuple of HEADER; the names below are its indexes.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence

from crc32c import crc32c

from penstock.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    UnsupportedCompressionType,
)
from penstock.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP
from penstock.wire.compression import (
    OUTPUT_BYTES_MAX,
    ZSTD,
    compress,
    decompress,
    decompress_start,
)
from penstock.wire.primitives import Buffer, Malformed

# base offset, length, leader epoch, magic, crc, attributes, last offset delta, base timestamp,
# max timestamp, producer id, producer epoch, base sequence, record count
HEADER = struct.Struct(">qiibIhiqqqhii")
Header = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
(
    BASE_OFFSET,
    LENGTH,
    LEADER_EPOCH,
    MAGIC,
    CRC,
    ATTRIBUTES,
    LAST_OFFSET_DELTA,
    BASE_TIMESTAMP,
    MAX_TIMESTAMP,
    PRODUCER_ID,
    PRODUCER_EPOCH,
    BASE_SEQUENCE,
    RECORD_COUNT,
) = range(13)

HEADER_BYTES = HEADER.size
# The length field counts the bytes after it.
LENGTH_OVERHEAD = 12
LENGTH_MIN = HEADER_BYTES - LENGTH_OVERHEAD
# The leader overwrites these: base offset, length, leader epoch. The checksum does not cover them.
PREFIX = struct.Struct(">qii")
CRC_POSITION = 17
CODEC_POSITION = 22  # the byte of the attributes with the codec
CRC_START = 21
MAGIC_2 = 2
SEQUENCE_MAX = 2**31 - 1

CODEC_MASK = 0x07
APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
_REFUSED = CONTROL | APPEND_TIME

_MAX_TIMESTAMP_POSITION = 35
_CHECKED = struct.Struct(">bI")  # magic and checksum
_SEALED = struct.Struct(">hiqqqhii")  # the part of the header that the checksum covers
_CONTROL_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
ABORT_MARKER, COMMIT_MARKER = 0, 1
_VARLONG_SHIFT_MAX = 63
_LONG_MASK = 2**64 - 1
_TIMESTAMP_MIN, _TIMESTAMP_MAX = -(2**63), 2**63 - 1


class CorruptBatch(Malformed):
    """A batch whose records contradict its header."""


class Record:
    """One record with absolute offset and timestamp."""

    __slots__ = ("headers", "key", "offset", "timestamp", "value")

    def __init__(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers

    def _fields(self) -> tuple[object, ...]:
        return (self.offset, self.timestamp, self.key, self.value, tuple(self.headers))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return "Record(offset=%r, timestamp=%r, key=%r, value=%r, headers=%r)" % self._fields()  # noqa: UP031


def check_produced(view: memoryview) -> Header:
    """Return the header of produced bytes if they are exactly one valid batch."""
    size = len(view)
    if size < HEADER_BYTES:
        raise _rejection_of_short(view)
    header: Header = HEADER.unpack_from(view)
    (_, length, _, magic, crc, attributes, delta, _, _, producer_id, _, sequence, count) = header
    if (
        magic != MAGIC_2
        or length != size - LENGTH_OVERHEAD
        or count != delta + 1
        or count <= 0
        or attributes & _REFUSED
        or (producer_id >= 0 and sequence < 0)
        or attributes & CODEC_MASK > ZSTD
    ):
        raise _rejection(view, header)
    if crc32c(view[CRC_START:]) != crc:
        raise CorruptMessage("the record batch does not match its checksum")
    return header


def _rejection_of_short(view: memoryview) -> Exception:
    if len(view) == 0:
        return InvalidRecord("no record batch was sent")
    if len(view) > 16 and view[16] < MAGIC_2:
        return InvalidRecord(f"message format {view[16]} is not accepted, only format 2")
    return InvalidRecord(f"{len(view)} bytes are too few for a record batch")


def _rejection(view: memoryview, header: Header) -> Exception:
    """Return the exact error of a batch that the hot path rejected."""
    size = len(view)
    length, magic, attributes = header[LENGTH], header[MAGIC], header[ATTRIBUTES]
    if magic != MAGIC_2:
        return InvalidRecord(f"message format {magic} is not accepted, only format 2")
    if length < LENGTH_MIN or length > size - LENGTH_OVERHEAD:
        return InvalidRecord(f"the batch says {length} bytes, {size - LENGTH_OVERHEAD} were sent")
    if length < size - LENGTH_OVERHEAD:
        return InvalidRecord("exactly one record batch per partition may be sent")
    delta, count = header[LAST_OFFSET_DELTA], header[RECORD_COUNT]
    if count <= 0 or count != delta + 1:
        return InvalidRecord(f"the batch counts {count} records over {delta + 1} offsets")
    if attributes & CONTROL:
        return InvalidRecord("clients may not write control records")
    if attributes & APPEND_TIME:
        return InvalidTimestamp("producers may not set the timestamp type to LogAppendTime")
    if attributes & CODEC_MASK > ZSTD:
        return UnsupportedCompressionType(f"no compression type {attributes & CODEC_MASK}")
    return InvalidRecord(
        f"producer {header[PRODUCER_ID]} sent the sequence number {header[BASE_SEQUENCE]}"
    )


def stamp_append_time(view: Buffer, now_ms: int) -> bytes:
    """Return the batch as LogAppendTime stores it: all records have the broker's time."""
    batch = bytearray(view)
    attributes = int.from_bytes(batch[CRC_START : CRC_START + 2], signed=True) | APPEND_TIME
    struct.pack_into(">h", batch, CRC_START, attributes)
    struct.pack_into(">q", batch, _MAX_TIMESTAMP_POSITION, now_ms)
    with memoryview(batch) as whole:
        checksum = crc32c(whole[CRC_START:])
    struct.pack_into(">I", batch, CRC_POSITION, checksum)
    return bytes(batch)


def needs_time_check(header: Header, now_ms: int, *, before_ms_max: int, after_ms_max: int) -> bool:
    """Return whether a record may have a timestamp that message.timestamp.before/after.max.ms
    forbid (CreateTime topics only).

    The header's max timestamp bounds the records from above. No field bounds them from below, so a
    limit on the past needs a look at every batch of several records.
    """
    latest = header[MAX_TIMESTAMP]
    if latest == NO_TIMESTAMP:
        return False
    low, high = now_ms - before_ms_max, now_ms + after_ms_max
    if latest > high or latest < low:
        return True
    return low > 0 and (header[RECORD_COUNT] > 1 or header[BASE_TIMESTAMP] != latest)


def batch_headers(data: Buffer, position: int = 0) -> Iterator[tuple[int, Header]]:
    """Yield position and header of each whole batch; skip an incomplete last batch."""
    end = len(data)
    while position + HEADER_BYTES <= end:
        header: Header = HEADER.unpack_from(data, position)
        length = header[LENGTH]
        if length < LENGTH_MIN or header[MAGIC] != MAGIC_2:
            raise CorruptBatch(f"no record batch at byte {position}")
        if position + LENGTH_OVERHEAD + length > end:
            return
        yield position, header
        position += LENGTH_OVERHEAD + length


def checksum_holds(batch: memoryview, header: Header) -> bool:
    return bool(crc32c(batch[CRC_START:]) == header[CRC])


def read_records(batch: Buffer, output_bytes_max: int = OUTPUT_BYTES_MAX) -> Iterator[Record]:
    """Yield the checked records of one batch; raise Malformed for an invalid one."""
    header, data = unpack_batch(batch, output_bytes_max)
    append_time = header[MAX_TIMESTAMP] if header[ATTRIBUTES] & APPEND_TIME else None
    base_offset, base_timestamp = header[BASE_OFFSET], header[BASE_TIMESTAMP]
    position = 0
    try:
        for _ in range(header[RECORD_COUNT]):
            record, position = _read_record(data, position, base_offset, base_timestamp)
            if append_time is not None:
                record.timestamp = append_time
            yield record
    except (IndexError, UnicodeDecodeError):
        raise CorruptBatch("a record ends too early or holds no text where it must") from None
    if position != len(data):
        raise CorruptBatch(f"{len(data) - position} bytes follow the last record")


def unpack_batch(batch: Buffer, output_bytes_max: int = OUTPUT_BYTES_MAX) -> tuple[Header, bytes]:
    """Return the header of one batch and its decompressed records, with their number and size
    checked."""
    header, body = _split(batch)
    data = bytes(decompress(header[ATTRIBUTES] & CODEC_MASK, body, output_bytes_max))
    _check_count(header, len(data))
    return header, data


def unpack_start(batch: Buffer, output_bytes_max: int) -> tuple[Header, bytes | bytearray, bool]:
    """Return header and records as unpack_batch does, but at most `output_bytes_max` bytes; and
    whether that is all."""
    header, body = _split(batch)
    data, whole = decompress_start(header[ATTRIBUTES] & CODEC_MASK, body, output_bytes_max)
    if whole:
        _check_count(header, len(data))
    return header, data, whole


def recompress_batch(
    batch: Buffer, codec: int, level: int | None, output_bytes_max: int = OUTPUT_BYTES_MAX
) -> bytes:
    """Return the batch with its records in another codec, without parsing them."""
    header, data = unpack_batch(batch, output_bytes_max)
    return seal_batch(
        compress(codec, data, level),
        header[ATTRIBUTES] & ~CODEC_MASK | codec,
        header[RECORD_COUNT],
        last_delta=header[LAST_OFFSET_DELTA],
        times_ms=(header[BASE_TIMESTAMP], header[MAX_TIMESTAMP]),
        producer=(header[PRODUCER_ID], header[PRODUCER_EPOCH], header[BASE_SEQUENCE]),
        base_offset=header[BASE_OFFSET],
        leader_epoch=header[LEADER_EPOCH],
    )


def _split(batch: Buffer) -> tuple[Header, memoryview]:
    """Return the header of one batch, and the bytes after it."""
    view = memoryview(batch)
    if len(view) < HEADER_BYTES:
        raise CorruptBatch(f"{len(view)} bytes are too few for a record batch")
    header: Header = HEADER.unpack_from(view)
    if header[MAGIC] != MAGIC_2:
        raise CorruptBatch(f"message format {header[MAGIC]} is not known")
    length = header[LENGTH]
    if length < LENGTH_MIN or LENGTH_OVERHEAD + length > len(view):
        raise CorruptBatch(f"the batch says {length} bytes, there are {len(view)}")
    return header, view[HEADER_BYTES : LENGTH_OVERHEAD + length]


def _check_count(header: Header, data_bytes: int) -> None:
    if header[RECORD_COUNT] < 0 or header[RECORD_COUNT] > data_bytes:
        raise CorruptBatch(f"{header[RECORD_COUNT]} records do not fit in {data_bytes} bytes")


# offset, timestamp, and whether the record has a key
Skimmed = tuple[int, int, bool]


def skim_start(header: Header, data: bytes | bytearray) -> Iterator[Skimmed]:
    """Yield the records whose beginning is in `data`, which may be cut anywhere."""
    return _skim(header, data, whole=False)


def skim_records(header: Header, data: bytes) -> Iterator[Skimmed]:
    """Yield the beginnings of unpacked records; raise Malformed for records that compaction could
    not read. Key and value are skipped, so a record of any size costs the same."""
    return _skim(header, data, whole=True)


def _skim(header: Header, data: bytes | bytearray, *, whole: bool) -> Iterator[Skimmed]:
    append_time = header[MAX_TIMESTAMP] if header[ATTRIBUTES] & APPEND_TIME else None
    base_offset, base_timestamp = header[BASE_OFFSET], header[BASE_TIMESTAMP]
    last_delta, data_end = header[LAST_OFFSET_DELTA], len(data)
    end, previous = 0, -1
    try:
        for _ in range(header[RECORD_COUNT]):
            size, position = _read_varint(data, end)
            end = position + size
            if size < 0 or (whole and end > data_end):
                raise CorruptBatch("a record reaches beyond the end")
            timestamp_delta, position = _read_varint(data, position + 1)
            offset_delta, position = _read_varint(data, position)
            key_size, position = _read_varint(data, position)
            if position > end or key_size > end - position:
                raise CorruptBatch("a field reaches beyond its record")
            if whole:
                value_size, position = _read_varint(data, position + max(key_size, 0))
                # The number of record headers follows; each header has at least two bytes.
                if position >= end or value_size >= end - position:
                    raise CorruptBatch("a field reaches beyond its record")
                headers, position = _read_varint(data, position + max(value_size, 0))
                if not 0 <= 2 * headers <= end - position:
                    raise CorruptBatch(f"a record claims {headers} headers")
            if not previous < offset_delta <= last_delta:
                raise CorruptBatch(f"a record {offset_delta} offsets after the first of its batch")
            previous = offset_delta
            timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
            if not _TIMESTAMP_MIN <= timestamp <= _TIMESTAMP_MAX:
                raise CorruptBatch(f"a record at the time {timestamp}")
            yield base_offset + offset_delta, timestamp, key_size >= 0
    except IndexError:
        if not whole:
            return
        raise CorruptBatch("a record ends too early") from None
    if whole and end != data_end:
        raise CorruptBatch(f"{data_end - end} bytes follow the last record")


def _read_record(
    data: bytes, position: int, base_offset: int, base_timestamp: int
) -> tuple[Record, int]:
    size, position = _read_varint(data, position)
    end = position + size
    if size < 0 or end > len(data):
        raise CorruptBatch("a record reaches beyond the end")
    position += 1  # attributes: none are defined
    timestamp_delta, position = _read_varint(data, position)
    offset_delta, position = _read_varint(data, position)
    key, position = _read_bytes(data, position, end)
    value, position = _read_bytes(data, position, end)
    count, position = _read_varint(data, position)
    if count < 0 or count > end - position:
        raise CorruptBatch(f"{count} record headers do not fit")
    headers: Sequence[tuple[str, bytes | None]] = ()
    if count:
        read: list[tuple[str, bytes | None]] = []
        for _ in range(count):
            name, position = _read_bytes(data, position, end)
            if name is None:
                raise CorruptBatch("a record header without a name")
            content, position = _read_bytes(data, position, end)
            read.append((name.decode(), content))
        headers = read
    if position != end:
        raise CorruptBatch("a record is not as long as it says")
    record = Record(base_offset + offset_delta, base_timestamp + timestamp_delta, key, value)
    record.headers = headers
    return record, position


def _read_varint(data: bytes | bytearray, position: int) -> tuple[int, int]:
    """Return a zigzag varint of up to 64 bits, and the position after it."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value = byte & 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= _LONG_MASK
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift > _VARLONG_SHIFT_MAX:
            raise CorruptBatch("a varint of more than 10 bytes")


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = _read_varint(data, position)
    if size < 0:
        return None, position
    if size > end - position:
        raise CorruptBatch("a field reaches beyond its record")
    return data[position : position + size], position + size


def write_varint(out: bytearray, value: int) -> None:
    if 0 <= value < _SMALL:
        out += SMALL_VARINTS[value]  # nearly all lengths and deltas; a call costs more than this
        return
    value = ((value << 1) ^ (value >> 63)) & _LONG_MASK
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _small_varint(value: int) -> bytes:
    return bytes((value << 1,)) if value < 64 else bytes((value << 1 & 0x7F | 0x80, value >> 6))


_SMALL = 1024
SMALL_VARINTS = tuple(_small_varint(value) for value in range(_SMALL))


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(1)  # zigzag of -1
        return
    write_varint(out, len(value))
    out += value


def write_record(
    body: bytearray,
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> None:
    """Append one record to a batch's body."""
    one = bytearray(1)
    write_varint(one, timestamp_delta)
    write_varint(one, offset_delta)
    _write_bytes(one, key)
    _write_bytes(one, value)
    write_varint(one, len(headers))
    for name, content in headers:
        _write_bytes(one, name.encode())
        _write_bytes(one, content)
    write_varint(body, len(one))
    body += one


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    compression: int = 0,
    level: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    append_time_ms: int | None = None,
) -> bytes:
    """Return one batch with these records. Record offsets count: deltas to `base_offset` are
    written, and the last record ends the batch. `append_time_ms` makes a LogAppendTime batch."""
    listed = list(records)
    base_timestamp = listed[0].timestamp if listed else NO_TIMESTAMP
    body = bytearray()
    max_timestamp = NO_TIMESTAMP
    for record in listed:
        write_record(
            body,
            record.timestamp - base_timestamp,
            record.offset - base_offset,
            record.key,
            record.value,
            record.headers,
        )
        max_timestamp = max(max_timestamp, record.timestamp)
    attributes = compression | (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
    if append_time_ms is not None:
        attributes |= APPEND_TIME
        max_timestamp = append_time_ms
    return seal_batch(
        compress(compression, body, level),
        attributes,
        len(listed),
        last_delta=listed[-1].offset - base_offset if listed else -1,
        times_ms=(base_timestamp, max_timestamp),
        producer=(producer_id, producer_epoch, base_sequence),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )


def seal_batch(
    data: Buffer,
    attributes: int,
    count: int,
    *,
    last_delta: int,
    times_ms: tuple[int, int],
    producer: tuple[int, int, int] = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE),
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """Return the header for records that are already written and compressed. `times_ms` are the
    first and the largest timestamp; `producer` is id, epoch and first sequence."""
    fields = _SEALED.pack(attributes, last_delta, *times_ms, *producer, count)
    checksum = crc32c(data, crc32c(fields))
    return b"".join(
        (
            PREFIX.pack(base_offset, LENGTH_MIN + len(data), leader_epoch),
            _CHECKED.pack(MAGIC_2, checksum),
            fields,
            data,
        )
    )


def build_marker(
    marker: int,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """Return the control batch that ends a transaction: COMMIT_MARKER or ABORT_MARKER."""
    record = Record(
        base_offset,
        timestamp,
        _CONTROL_KEY.pack(0, marker),
        _MARKER_VALUE.pack(0, coordinator_epoch),
    )
    return build_batch(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def read_marker(batch: Buffer) -> tuple[int, int, int] | None:
    """Return marker type, coordinator epoch and timestamp of a control batch. Return None for other
    control batches: those of the quorum, and those that compaction emptied."""
    for record in read_records(batch):
        if record.key is None or len(record.key) < _CONTROL_KEY.size:
            raise CorruptBatch("a control record without a type")
        _, marker = _CONTROL_KEY.unpack_from(record.key)
        if marker not in (ABORT_MARKER, COMMIT_MARKER):
            return None
        if record.value is None or len(record.value) < _MARKER_VALUE.size:
            raise CorruptBatch("a transaction marker without a coordinator epoch")
        _, coordinator_epoch = _MARKER_VALUE.unpack_from(record.value)
        return marker, coordinator_epoch, record.timestamp
    return None


def increment_sequence(sequence: int, by: int) -> int:
    """Return the next sequence number; after 2^31-1 follows 0."""
    return (sequence + by) & SEQUENCE_MAX
