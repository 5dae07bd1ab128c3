"""`penstock log dump` over files written here."""

import struct
from pathlib import Path

import pytest
from cli_running import run

from penstock.log.checkpoints import format_epochs, format_offsets
from penstock.log.transactions import Aborted, pack_aborted
from penstock.model import TopicPartition
from penstock.wire.batch import COMMIT_MARKER, Record, build_batch, build_marker
from penstock.wire.records.metadata import TopicRecord, write_metadata_record

SEGMENT = "00000000000000000010"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "orders-0"
    made.mkdir()
    records = [
        Record(10, 1000, b"k", b"v", [("h", b"x")]),
        Record(11, 1001, None, b"\xff"),
    ]
    (made / f"{SEGMENT}.log").write_bytes(build_batch(records, base_offset=10))
    return made


def test_batches_and_records_are_shown(directory: Path) -> None:
    ran = run("log", "dump", str(directory), "--records", "--format", "json")
    assert ran.code == 0
    batch, first, second = ran.json_lines
    assert (batch["base_offset"], batch["last_offset"], batch["count"]) == (10, 11, 2)
    assert (first["record"], first["key"], first["value"]) == (10, "k", "v")
    assert first["headers"] == {"h": "x"}
    assert (second["key"], second["value"]) == (None, "\\xff")


def test_records_are_left_out_unless_asked_for(directory: Path) -> None:
    ran = run("log", "dump", str(directory / f"{SEGMENT}.log"))
    assert "base_offset=10" in ran.out
    assert "record=" not in ran.out


def test_a_broken_batch_is_a_fault(directory: Path) -> None:
    file = directory / f"{SEGMENT}.log"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    ran = run("log", "dump", str(file), "--records")
    assert ran.code == 1
    assert "does not match its checksum" in ran.err


def test_a_batch_cut_short_is_a_fault(directory: Path) -> None:
    file = directory / f"{SEGMENT}.log"
    file.write_bytes(file.read_bytes()[:-3])
    ran = run("log", "dump", str(file))
    assert ran.code == 1
    assert "no whole batch" in ran.err


def test_indexes_end_where_their_padding_begins(tmp_path: Path) -> None:
    index = tmp_path / f"{SEGMENT}.index"
    index.write_bytes(struct.pack(">ii", 5, 4096) + bytes(800))
    times = tmp_path / f"{SEGMENT}.timeindex"
    times.write_bytes(struct.pack(">qi", 99, 7) + bytes(1200))
    ran = run("log", "dump", str(index), str(times), "--format", "json")
    assert ran.json_lines == [
        {"file": str(index), "offset": 15, "position": 4096},
        {"file": str(times), "timestamp": 99, "offset": 17},
    ]


def test_checkpoints_and_the_transaction_index_are_shown(tmp_path: Path) -> None:
    epochs = tmp_path / "leader-epoch-checkpoint"
    epochs.write_bytes(format_epochs([(3, 40)]))
    offsets = tmp_path / "replication-offset-checkpoint"
    offsets.write_bytes(format_offsets({TopicPartition("a", 1): 7}))
    aborted = tmp_path / f"{SEGMENT}.txnindex"
    aborted.write_bytes(pack_aborted(Aborted(1, 2, 3, 4)))
    paths = [str(epochs), str(offsets), str(aborted)]
    lines = run("log", "dump", *paths, "--format", "json").json_lines
    assert lines[0] == {"file": str(epochs), "epoch": 3, "start_offset": 40}
    assert lines[1] == {"file": str(offsets), "topic": "a", "partition": 1, "offset": 7}
    assert lines[2]["last_stable_offset"] == 4


def test_an_empty_checkpoint_is_a_fault(tmp_path: Path) -> None:
    file = tmp_path / "recovery-point-offset-checkpoint"
    file.touch()
    assert run("log", "dump", str(file)).code == 1


def test_metadata_records_are_decoded(tmp_path: Path) -> None:
    made = tmp_path / "__cluster_metadata-0"
    made.mkdir()
    record = write_metadata_record(TopicRecord(name="orders", topic_id=bytes(16)), 0)
    (made / f"{SEGMENT}.log").write_bytes(build_batch([Record(0, 0, None, record)]))
    ran = run("log", "dump", str(made), "--records")
    assert "TopicRecord(name='orders'" in ran.out


def test_a_marker_is_named(tmp_path: Path) -> None:
    file = tmp_path / f"{SEGMENT}.log"
    marker = build_marker(
        COMMIT_MARKER, producer_id=5, producer_epoch=1, coordinator_epoch=2, timestamp=9
    )
    file.write_bytes(marker)
    assert "control=COMMIT" in run("log", "dump", str(file), "--records").out


def test_what_is_no_such_file_is_said(tmp_path: Path) -> None:
    missing = run("log", "dump", str(tmp_path), "/no/such")
    assert (missing.code, missing.out) == (2, "")
    assert "/no/such: there is no such file or directory; name a file of a data" in missing.err
    other = tmp_path / "notes.txt"
    other.write_text("x")
    assert "not known" in run("log", "dump", str(other)).err
