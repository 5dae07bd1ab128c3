"""Prints segments and metadata snapshots as kafka-dump-log does: batches and records."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from penstock.cli.kafka.records.record_json import as_json, json_name
from penstock.cli.log.metadata_secrets import HIDDEN, secret_fields
from penstock.cli.log.stored_files import StoredBatch, base_offset, map_file, read_batches
from penstock.cli.terminal.output import Json
from penstock.wire import batch as wire
from penstock.wire.codec import read, read_int16
from penstock.wire.primitives import Malformed
from penstock.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    read_consumer_protocol,
)
from penstock.wire.records.coordinator import (
    GROUP_RECORDS,
    SHARE_STATE_RECORDS,
    TRANSACTION_RECORDS,
    Family,
    read_coordinator_key,
    read_coordinator_value,
)
from penstock.wire.records.group import GroupMetadataValue, MemberMetadata
from penstock.wire.records.metadata import read_metadata_record
from penstock.wire.records.quorum import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from penstock.wire.schema import schema_of

# Returns texts of a record's key and value; None for a missing one.
Shown: TypeAlias = "Callable[[wire.Record], tuple[str | None, str | None]]"

KEY_VERSION = 0
CONSUMER_PROTOCOL = "consumer"
DELETE_HORIZON = 0x40
ABORT, COMMIT, LEADER_CHANGE = 0, 1, 2
# Control records whose value begins with its version, by the number in their key.
CONTROL: dict[int, tuple[str, type]] = {
    LEADER_CHANGE: ("LeaderChange:", LeaderChangeMessage),
    3: ("SnapshotHeader", SnapshotHeaderRecord),
    4: ("SnapshotFooter", SnapshotFooterRecord),
    5: ("KRaftVersion", KRaftVersionRecord),
    6: ("KRaftVoters", VotersRecord),
}


@dataclass(frozen=True, slots=True)
class Printing:
    """The parts of a segment to print."""

    records: bool
    contents: bool
    record_metadata: bool
    bytes_max: int
    shown: Shown


def dump_batches(path: Path, printing: Printing) -> Iterator[tuple[int, int]]:
    """Print the batches of a file; yield the offsets around each gap."""
    _print_beginning(path)
    with map_file(path) as whole, whole[: printing.bytes_max] as view:
        end = 0
        last: int | None = None
        try:
            for batch in read_batches(view):
                end = batch.end
                print(_batch_line(batch))
                for record in batch.records() if printing.records else ():
                    if last is not None and record.offset != last + 1:
                        yield last, record.offset
                    last = record.offset
                    print(_record_line(record, batch, printing))
        except Malformed as problem:
            print(f"{problem} in {path.name}")
        if end < len(view) and len(view) == len(whole):
            print(f"Found {len(view) - end} invalid bytes at the end of {path.name}")


def _print_beginning(path: Path) -> None:
    stem = path.name.partition(".")[0]
    if path.suffix == ".log":
        print(f"Log starting offset: {base_offset(path) or 0}")
    elif path.name == "bootstrap.checkpoint":
        print("KRaft bootstrap snapshot")
    else:
        offset, _, epoch = stem.partition("-")
        print(f"Snapshot end offset: {int(offset)}, epoch: {int(epoch)}")


def _batch_line(batch: StoredBatch) -> str:
    header, attributes = batch.header, batch.header[wire.ATTRIBUTES]
    base, delta = header[wire.BASE_OFFSET], header[wire.LAST_OFFSET_DELTA]
    sequence = header[wire.BASE_SEQUENCE]
    last_sequence = wire.increment_sequence(sequence, delta) if sequence >= 0 else sequence
    horizon = "OptionalLong.empty"
    if attributes & DELETE_HORIZON:
        horizon = f"OptionalLong[{header[wire.BASE_TIMESTAMP]}]"
    return (
        f"baseOffset: {base} lastOffset: {batch.last_offset} count: {header[wire.RECORD_COUNT]} "
        f"baseSequence: {sequence} lastSequence: {last_sequence} "
        f"producerId: {header[wire.PRODUCER_ID]} producerEpoch: {header[wire.PRODUCER_EPOCH]} "
        f"partitionLeaderEpoch: {header[wire.LEADER_EPOCH]} "
        f"isTransactional: {_word(attributes & wire.TRANSACTIONAL)} "
        f"isControl: {_word(batch.is_control)} deleteHorizonMs: {horizon} "
        f"position: {batch.position} {batch.timestamp_type}: {header[wire.MAX_TIMESTAMP]} "
        f"size: {len(batch.data)} magic: {header[wire.MAGIC]} "
        f"compresscodec: {batch.codec_name} "
        f"crc: {header[wire.CRC]} isvalid: {_word(batch.checksum_holds)}"
    )


def _word(value: object) -> str:
    return "true" if value else "false"


def _record_line(record: wire.Record, batch: StoredBatch, printing: Printing) -> str:
    sequence = batch.header[wire.BASE_SEQUENCE]
    if sequence >= 0:
        delta = record.offset - batch.header[wire.BASE_OFFSET]
        sequence = wire.increment_sequence(sequence, delta)
    parts: list[str] = []
    if printing.record_metadata:
        names = ",".join(name for name, _ in record.headers)
        parts += [
            f"offset: {record.offset}",
            f"{batch.timestamp_type}: {record.timestamp}",
            f"keySize: {_size(record.key)}",
            f"valueSize: {_size(record.value)}",
            f"sequence: {sequence}",
            f"headerKeys: [{names}]",
        ]
        if batch.is_control:
            parts.append(_control(record))
    if printing.contents and not batch.is_control:
        key, value = printing.shown(record)
        parts += [] if key is None else [f"key: {key}"]
        parts += [] if value is None else [f"payload: {value}"]
    return "| " + " ".join(parts) if parts else ""


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _control(record: wire.Record) -> str:
    try:
        kind = read_int16((record.key or b"")[2:])
        value = record.value or b""
        if kind in (ABORT, COMMIT):
            epoch = int.from_bytes(value[2:6], "big", signed=True)
            name = "COMMIT" if kind == COMMIT else "ABORT"
            return f"endTxnMarker: {name} coordinatorEpoch: {epoch}"
        if kind not in CONTROL:
            return f"controlType: UNKNOWN({kind})"
        name, cls = CONTROL[kind]
        version = read_int16(value)
        return f"{name} {_text(as_json(read(cls, version, value), version))}"
    except Malformed as problem:
        return f"controlType: unreadable ({problem})"


# -- decoders


def shown_by(decoder: str | None) -> Shown:
    """Return the decoder for a `...-decoder` option; without one, keys and values are text."""
    families = {
        "offsets-decoder": GROUP_RECORDS,
        "transaction-log-decoder": TRANSACTION_RECORDS,
        "share-group-state-decoder": SHARE_STATE_RECORDS,
    }
    if decoder == "cluster-metadata-decoder":
        return _metadata
    if decoder is not None:
        family = families[decoder]
        return lambda record: _coordinated(family, record)
    return lambda record: (_plain(record.key), _plain(record.value))


def _plain(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def _metadata(record: wire.Record) -> tuple[str | None, str | None]:
    try:
        value, version = read_metadata_record(record.value or b"")
    except Malformed as problem:
        return None, f"Could not deserialize metadata record: {problem}"
    name = "".join(f"_{c}" if c.isupper() else c.upper() for c in type(value).__name__)
    data = as_json(value, version) | {json_name(each): HIDDEN for each in secret_fields(value)}
    shown: Json = {"type": name.lstrip("_"), "version": version, "data": data}
    return None, _text(shown)


def _coordinated(family: Family, record: wire.Record) -> tuple[str | None, str | None]:
    try:
        key = read_coordinator_key(family, record.key or b"")
        shown_key: Json = {
            "type": str(schema_of(type(key)).key),
            "data": as_json(key, KEY_VERSION),
        }
        if record.value is None:
            return _text(shown_key), "<DELETE>"
        value, version = read_coordinator_value(family, key, record.value)
        data = as_json(value, version)
        if isinstance(value, GroupMetadataValue) and value.protocol_type == CONSUMER_PROTOCOL:
            data["members"] = [_member(member, version) for member in value.members]
        shown: Json = {"version": str(version), "data": data}
        return _text(shown_key), _text(shown)
    except Malformed as problem:
        return f"Unknown record: {problem}", None


def _member(member: MemberMetadata, version: int) -> Json:
    """Return a member with its subscription and assignment decoded."""
    shown = as_json(member, version)
    for name, data, cls in (
        ("subscription", member.subscription, ConsumerProtocolSubscription),
        ("assignment", member.assignment, ConsumerProtocolAssignment),
    ):
        if data:
            answered: object = read_consumer_protocol(cls, data)
            shown[name] = as_json(answered, read_int16(data))
    return shown


def _text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
