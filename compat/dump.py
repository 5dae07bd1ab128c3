"""Kafka's DumpLogSegments reads everything that a Penstock node wrote, without complaint."""

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from bench.servers import Ports, java_class, scratch
from compat.compacted import TOPIC as COMPACTED
from compat.compacted import check_compacted
from compat.data import Content, fill
from compat.directories import node, ourselves
from compat.promises import Promises, make_promises
from compat.report import Report

DUMP_SECONDS_MAX = 300
# Every few records, so that a short run leaves snapshots of real content.
SNAPSHOT_OFTEN = {"metadata.log.max.record.bytes.between.snapshots": "1000"}
COMPLAINTS = (
    "Mismatches in",
    "Found timestamp mismatch",
    "Found out of order timestamp",
    "Indexed offset:",
    "invalid",
    "isvalid: false",
    "Exception",
    "Error at",
    "Could not",
    "corrupt",
    "Exit code",
)
DUMPING = re.compile(r"^Dumping (?:.*/)?([^/]+)/[^/]+$")
# Kafka's tool says "-1 is followed by N" of every segment but the first, its own segments too.
GAP = re.compile(r"^\s*\d+ is followed by")
RECORD = re.compile(r"^\| offset: (\d+) .*? payload: (.*)$")


def dump(files: Iterable[Path], *options: str) -> str:
    command = java_class("org.apache.kafka.tools.DumpLogSegments", *options, "--files")
    done = subprocess.run(
        [*command, ",".join(map(str, files))],
        capture_output=True,
        text=True,
        timeout=DUMP_SECONDS_MAX,
        check=False,
    )
    return done.stdout + done.stderr + (f"\nExit code {done.returncode}" * bool(done.returncode))


def complaints(output: str) -> list[str]:
    """Lines of the dump that speak of damage; payloads are our own random text."""
    heads = [line.partition(" payload:")[0] for line in output.splitlines()]
    words = [complaint.lower() for complaint in COMPLAINTS]
    return [h for h in heads if GAP.match(h) or any(word in h.lower() for word in words)]


def dumped_values(output: str) -> dict[str, list[bytes]]:
    """The payloads per partition directory, in the order of their files."""
    values: dict[str, list[bytes]] = defaultdict(list)
    place = ""
    for line in output.splitlines():
        if opened := DUMPING.match(line):
            place = opened[1]
        elif record := RECORD.match(line):
            values[place].append(record[2].encode())
    return values


def _check_segments(report: Report, data: Path, content: Content) -> None:
    segments = sorted(p for name in content.partitions for p in data.glob(f"{name}-[0-9]*/*.log"))
    output = dump(segments, "--deep-iteration", "--print-data-log")
    report.expect(
        not complaints(output), f"{len(segments)} segments", "\n".join(complaints(output)[:20])
    )
    found = dumped_values(output)
    wrong = [
        f"{name}-{partition}: {len(found[f'{name}-{partition}'])} of {len(values)} records"
        for (name, partition), values in content.values.items()
        if found[f"{name}-{partition}"] != values
    ]
    report.expect(not wrong, "every payload, in order", "\n".join(wrong))
    several = [d for d in content.values if len(list(data.glob(f"{d[0]}-{d[1]}/*.log"))) > 1]
    report.expect(bool(several), "some partitions have several segments", str(segments))


def _check_kind(report: Report, data: Path, pattern: str, needed: str, *options: str) -> None:
    """All files of one kind: no complaint, and something that proves they were read."""
    files = [path for path in sorted(data.glob(pattern)) if path.stat().st_size]
    if not report.expect(bool(files), f"there are {pattern}"):
        return
    output = dump(files, *options)
    found = complaints(output)
    report.expect(not found, f"{len(files)} of {pattern}", "\n".join(found[:20]))
    report.expect(needed in output, f"{pattern} show {needed!r}", output[-1000:])


def _check_compacted(report: Report, place: Path) -> None:
    """Offsets have gaps here; everything else is as it must be."""
    partition = check_compacted(report, place, clean=True) / f"{COMPACTED}-0"
    output = dump(sorted(partition.glob("*.log")), "--deep-iteration", "--print-data-log")
    found = [line for line in complaints(output) if not GAP.match(line)]
    report.expect(not found, "compacted segments", "\n".join(found[:20]))
    for pattern in ("*.index", "*.timeindex", "*.snapshot"):
        output = dump([each for each in sorted(partition.glob(pattern)) if each.stat().st_size])
        found = complaints(output)
        report.expect(not found, f"{pattern} of compacted segments", "\n".join(found[:20]))


def check_dump(report: Report) -> None:
    content = Content()
    with scratch() as place:
        _check_compacted(report, place)
        data = place / "data"
        with node(ourselves(), data, Ports.free(), changes=SNAPSHOT_OFTEN) as server:
            fill(server.bootstrap, content, "dump")
            make_promises(server.bootstrap, Promises(), "promised")
        _check_segments(report, data, content)
        indexes = "dump-*/*.index"
        _check_kind(report, data, indexes, "passed sanity check", "--index-sanity-check")
        _check_kind(report, data, indexes, "offset: ")
        _check_kind(report, data, "dump-*/*.timeindex", "timestamp: ")
        _check_kind(report, data, "dump-*/*.snapshot", "producerId: ")
        offsets, transactions = "__consumer_offsets-*/*.log", "__transaction_state-*/*.log"
        _check_kind(report, data, offsets, "promised-group", "--offsets-decoder")
        _check_kind(report, data, transactions, "promised-txn", "--transaction-log-decoder")
        _check_kind(report, data, "promised-*/*.txnindex", "lastStableOffset")
        log = "__cluster_metadata-0/*.log"
        _check_kind(report, data, log, "TOPIC_RECORD", "--cluster-metadata-decoder")
        snapshots = "__cluster_metadata-0/*.checkpoint"
        _check_kind(report, data, snapshots, "SnapshotHeader", "--cluster-metadata-decoder")
        _check_kind(report, data, snapshots, "TOPIC_RECORD", "--cluster-metadata-decoder")
