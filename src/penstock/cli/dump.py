"""Reads one file of a data directory into rows; a row with `fault` tells what is wrong with it."""

import mmap
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from penstock.cli.decode import Decoder, as_text, decode_control, decoder_for
from penstock.cli.output import Json, reason_of
from penstock.log.checkpoints import parse_epochs, parse_offsets
from penstock.log.index import OFFSET_ENTRY, TIME_ENTRY
from penstock.log.producers import CorruptSnapshot, Producers
from penstock.log.transactions import aborted_entries
from penstock.model import CLUSTER_METADATA_TOPIC
from penstock.wire import batch as wire
from penstock.wire.compression import NAMES
from penstock.wire.primitives import Malformed

Rows = Iterator[dict[str, Json]]

# No producer is too old to be shown.
_NEVER_MS = 2**62


def files_in(path: Path) -> list[Path]:
    """The file itself, or all files of a directory that are known, in order."""
    if path.is_file():
        return [path]
    return sorted(each for each in path.iterdir() if each.is_file() and _reader_of(each))


def dump_file(path: Path, records: bool) -> Rows:
    reader = _reader_of(path)
    if reader is None:
        yield {"fault": "this kind of file is not known"}
        return
    try:
        yield from reader(path, records)
    except OSError as problem:
        yield {"fault": reason_of(problem)}


def _reader_of(path: Path) -> Callable[[Path, bool], Rows] | None:
    suffix = path.suffix
    for marked in (".deleted", ".swap", ".cleaned"):
        if suffix == marked:
            suffix = Path(path.stem).suffix
    by_suffix: dict[str, Callable[[Path, bool], Rows]] = {
        ".log": _dump_batches,
        ".checkpoint": _dump_batches,
        ".index": _dump_index,
        ".timeindex": _dump_time_index,
        ".txnindex": _dump_transaction_index,
        ".snapshot": _dump_producers,
    }
    if path.name == "leader-epoch-checkpoint":
        return _dump_epochs
    if path.name.endswith("-checkpoint"):
        return _dump_offsets
    if path.name in ("meta.properties", "partition.metadata", "quorum-state"):
        return _dump_text
    return by_suffix.get(suffix)


def _dump_batches(path: Path, records: bool) -> Rows:
    if path.stat().st_size == 0:
        return
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        # The mapping cannot be closed while a view of it is alive.
        memoryview(mapped) as view,
    ):
        yield from _batch_rows(view, _decoder_of(path) if records else None)


def _decoder_of(path: Path) -> Decoder:
    """How records of this file are read: those of internal topics have a meaning."""
    if path.suffix == ".checkpoint":
        return decoder_for(CLUSTER_METADATA_TOPIC)
    topic, _, _ = path.parent.name.rpartition("-")
    return decoder_for(topic)


def _batch_rows(view: memoryview, decode: Decoder | None) -> Rows:
    end = 0
    try:
        for position, header in wire.batch_headers(view):
            end = position + wire.LENGTH_OVERHEAD + header[wire.LENGTH]
            with view[position:end] as batch:
                yield _batch_row(position, header)
                if not wire.checksum_holds(batch, header):
                    yield {"fault": f"the batch at byte {position} does not match its checksum"}
                elif decode is not None:
                    yield from _record_rows(bytes(batch), header, decode)
    except Malformed as problem:
        yield {"fault": str(problem)}
        return
    if end < len(view):
        yield {"fault": f"{len(view) - end} bytes at byte {end} are no whole batch"}


def _batch_row(position: int, header: wire.Header) -> dict[str, Json]:
    attributes = header[wire.ATTRIBUTES]
    return {
        "position": position,
        "base_offset": header[wire.BASE_OFFSET],
        "last_offset": header[wire.BASE_OFFSET] + header[wire.LAST_OFFSET_DELTA],
        "count": header[wire.RECORD_COUNT],
        "bytes": wire.LENGTH_OVERHEAD + header[wire.LENGTH],
        "leader_epoch": header[wire.LEADER_EPOCH],
        "codec": _codec_name(attributes & wire.CODEC_MASK),
        "timestamp_type": "LogAppendTime" if attributes & wire.APPEND_TIME else "CreateTime",
        "base_timestamp": header[wire.BASE_TIMESTAMP],
        "max_timestamp": header[wire.MAX_TIMESTAMP],
        "producer_id": header[wire.PRODUCER_ID],
        "producer_epoch": header[wire.PRODUCER_EPOCH],
        "base_sequence": header[wire.BASE_SEQUENCE],
        "transactional": bool(attributes & wire.TRANSACTIONAL),
        "control": bool(attributes & wire.CONTROL),
        "crc": header[wire.CRC],
    }


def _codec_name(codec: int) -> str:
    return NAMES[codec] if codec < len(NAMES) else "unknown"


def _record_rows(batch: bytes, header: wire.Header, decode: Decoder) -> Rows:
    decoded = decode_control if header[wire.ATTRIBUTES] & wire.CONTROL else decode
    for record in wire.read_records(batch):
        row: dict[str, Json] = {"record": record.offset, "timestamp": record.timestamp}
        row |= decoded(record)
        if record.headers:
            row["headers"] = {name: as_text(value) for name, value in record.headers}
        yield row


def _base_offset(path: Path) -> int:
    digits = path.name.partition(".")[0]
    return int(digits) if digits.isdecimal() else 0


def _dump_index(path: Path, _records: bool) -> Rows:
    base = _base_offset(path)
    for relative, position in _entries(path, OFFSET_ENTRY):
        yield {"offset": base + relative, "position": position}


def _dump_time_index(path: Path, _records: bool) -> Rows:
    base = _base_offset(path)
    for timestamp, relative in _entries(path, TIME_ENTRY):
        yield {"timestamp": timestamp, "offset": base + relative}


def _entries(path: Path, entry: struct.Struct) -> Iterator[tuple[int, int]]:
    """All entries; an index that was not closed ends in zeros, which are none."""
    data = path.read_bytes()
    whole = len(data) - len(data) % entry.size
    for first, second in entry.iter_unpack(data[:whole]):
        if not first and not second:
            return
        yield first, second


def _dump_transaction_index(path: Path, _records: bool) -> Rows:
    for each in aborted_entries(path.read_bytes()):
        yield {**each._asdict()}


def _dump_producers(path: Path, _records: bool) -> Rows:
    producers = Producers()
    try:
        producers.load_snapshot(path.read_bytes(), 0, _NEVER_MS)
    except CorruptSnapshot as problem:
        yield {"fault": str(problem)}
        return
    for producer_id, state in sorted(producers.states.items()):
        epoch, last_sequence, last_timestamp, coordinator_epoch, first_offset, _ = state
        yield {
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "last_sequence": last_sequence,
            "last_timestamp": last_timestamp,
            "coordinator_epoch": coordinator_epoch,
            "transaction_first_offset": first_offset if first_offset >= 0 else None,
        }


def _dump_epochs(path: Path, _records: bool) -> Rows:
    entries, complaint = parse_epochs(path.read_bytes())
    for epoch, offset in entries:
        yield {"epoch": epoch, "start_offset": offset}
    if complaint is not None:
        yield {"fault": complaint}


def _dump_offsets(path: Path, _records: bool) -> Rows:
    offsets, complaint = parse_offsets(path.read_bytes())
    for partition, offset in offsets.items():
        yield {"topic": partition.topic, "partition": partition.partition, "offset": offset}
    if complaint is not None:
        yield {"fault": complaint}


def _dump_text(path: Path, _records: bool) -> Rows:
    for line in path.read_text("utf-8", "replace").splitlines():
        if line and not line.startswith("#"):
            yield {"line": line}
