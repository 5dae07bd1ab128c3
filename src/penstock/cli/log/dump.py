"""Printer of `penstock log dump`: one file of a data directory as rows.

A row with `fault` tells what is wrong with the file.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from penstock.cli.log.decode import Decoder, as_text, decode_control, decoder_for
from penstock.cli.log.stored_files import (
    StoredBatch,
    base_offset,
    map_file,
    read_batches,
    read_index,
    read_producers,
)
from penstock.cli.terminal.output import Row, reason_of
from penstock.log.checkpoints import parse_epochs, parse_offsets
from penstock.log.index import OFFSET_ENTRY, TIME_ENTRY
from penstock.log.producers import CorruptSnapshot
from penstock.log.transactions import aborted_entries
from penstock.model import CLUSTER_METADATA_TOPIC
from penstock.wire import batch as wire
from penstock.wire.primitives import Malformed

Rows = Iterator[Row]


def files_in(path: Path) -> list[Path]:
    """Return the file itself, or all known files of a directory, in order."""
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
    with map_file(path) as view:
        yield from _batch_rows(view, _decoder_of(path) if records else None)


def _decoder_of(path: Path) -> Decoder:
    """Return the decoder for the topic of this file."""
    if path.suffix == ".checkpoint":
        return decoder_for(CLUSTER_METADATA_TOPIC)
    topic, _, _ = path.parent.name.rpartition("-")
    return decoder_for(topic)


def _batch_rows(view: memoryview, decode: Decoder | None) -> Rows:
    end = 0
    try:
        for batch in read_batches(view):
            end = batch.end
            yield _batch_row(batch)
            if not batch.checksum_holds:
                yield {"fault": f"the batch at byte {batch.position} does not match its checksum"}
            elif decode is not None:
                yield from _record_rows(batch, decode)
    except Malformed as problem:
        yield {"fault": str(problem)}
        return
    if end < len(view):
        yield {"fault": f"{len(view) - end} bytes at byte {end} are no whole batch"}


def _batch_row(batch: StoredBatch) -> Row:
    header = batch.header
    return {
        "position": batch.position,
        "base_offset": header[wire.BASE_OFFSET],
        "last_offset": batch.last_offset,
        "count": header[wire.RECORD_COUNT],
        "bytes": len(batch.data),
        "leader_epoch": header[wire.LEADER_EPOCH],
        "codec": batch.codec_name,
        "timestamp_type": batch.timestamp_type,
        "base_timestamp": header[wire.BASE_TIMESTAMP],
        "max_timestamp": header[wire.MAX_TIMESTAMP],
        "producer_id": header[wire.PRODUCER_ID],
        "producer_epoch": header[wire.PRODUCER_EPOCH],
        "base_sequence": header[wire.BASE_SEQUENCE],
        "transactional": bool(header[wire.ATTRIBUTES] & wire.TRANSACTIONAL),
        "control": batch.is_control,
        "crc": header[wire.CRC],
    }


def _record_rows(batch: StoredBatch, decode: Decoder) -> Rows:
    decoded = decode_control if batch.is_control else decode
    for record in batch.records():
        row: Row = {"record": record.offset, "timestamp": record.timestamp}
        row |= decoded(record)
        if record.headers:
            row["headers"] = {name: as_text(value) for name, value in record.headers}
        yield row


def _dump_index(path: Path, _records: bool) -> Rows:
    base = base_offset(path) or 0
    for relative, position in read_index(path, OFFSET_ENTRY):
        yield {"offset": base + relative, "position": position}


def _dump_time_index(path: Path, _records: bool) -> Rows:
    base = base_offset(path) or 0
    for timestamp, relative in read_index(path, TIME_ENTRY):
        yield {"timestamp": timestamp, "offset": base + relative}


def _dump_transaction_index(path: Path, _records: bool) -> Rows:
    for each in aborted_entries(path.read_bytes()):
        yield {**each._asdict()}


def _dump_producers(path: Path, _records: bool) -> Rows:
    try:
        producers = read_producers(path)
    except CorruptSnapshot as problem:
        yield {"fault": str(problem)}
        return
    for producer_id, state in sorted(producers.items()):
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
