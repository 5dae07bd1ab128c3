"""Compaction of one log by either cleaner: megabytes of log per second of CPU.

Both clean the same generated log, in a process of their own and without a limit on their speed:
ours through `penstock.log.compaction.clean`, Apache Kafka's through its own Cleaner class
(KafkaCleaner.java), each after a smaller log that warms it up. Counted is the CPU time of the
cleaner alone, on Kafka's side that of its thread without the compiler's and the collector's.
"""

import json
import pickle
import resource
import shutil
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from bench.programs import LoadFailed
from bench.servers import JVM_FLAGS, ROOT, java_class
from penstock.log.compaction.order import Order, Segment
from penstock.wire.batch import (
    CRC_POSITION,
    CRC_START,
    HEADER_BYTES,
    Record,
    build_batch,
    seal_batch,
)
from penstock.wire.compression import compress

DIRECTORY = "compacted-0"
KEY_BYTES = 16
VALUE_BYTES = 100
BATCH_RECORDS = 128
SEGMENT_BYTES = 256 * 1024 * 1024
LOG_BYTES, LOG_BYTES_QUICK = 1_000_000_000, 100_000_000
WARMUP_BYTES = 100_000_000
# Bytes of log for each key: a gigabyte has a million, each some eight times.
RECORD_BYTES_PER_KEY = 1_000
MAP_BYTES = 128 * 1024 * 1024
DELETE_RETENTION_MS = 86_400_000
SECONDS_MAX = 900
ERROR_CHARACTERS_MAX = 2_000
SEED = 6


def generate(place: Path, size: int, keys: int, codec: int = 0) -> Order:
    """A log of records with keys by chance in `place`, and what cleans all of it."""
    import numpy as np

    dice = np.random.default_rng(SEED)
    now_ms = int(time.time() * 1000)
    filler = b"K" * KEY_BYTES
    values = [dice.bytes(VALUE_BYTES // 2).hex().encode() for _ in range(BATCH_RECORDS)]
    records = [Record(at, now_ms, filler, value) for at, value in enumerate(values)]
    batch = bytearray(build_batch(records, leader_epoch=0))
    starts = [at for at in range(len(batch)) if batch.startswith(filler, at)]
    places = np.array(starts)[:, None] + np.arange(KEY_BYTES)
    digits = 10 ** np.arange(KEY_BYTES - 1, -1, -1, dtype=np.int64)
    view = np.frombuffer(batch, np.uint8)
    directory = place / DIRECTORY
    directory.mkdir(parents=True)
    segments: list[Segment] = []
    offset = written = 0
    while written < size:
        base, used = offset, 0
        with open(directory / f"{base:020d}.log", "wb") as file:
            while used < SEGMENT_BYTES and written + used < size:
                chosen = dice.integers(0, keys, BATCH_RECORDS)
                view[places] = chosen[:, None] // digits % 10 + ord("0")
                used += file.write(_sealed(batch, offset, now_ms, codec))
                offset += BATCH_RECORDS
        segments.append(Segment(base, offset, used, now_ms, False))
        written += used
    (directory / f"{offset:020d}.log").touch()  # the active one
    return Order(
        directory=DIRECTORY,
        segments=tuple(segments),
        start_offset=0,
        first_dirty_offset=0,
        upper_offset=offset,
        now_ms=now_ms,
        delete_retention_ms=DELETE_RETENTION_MS,
        segment_bytes_max=1 << 30,
        index_bytes_max=10 << 20,
        index_interval_bytes=4096,
        message_bytes_max=1 << 20,
        last_offsets={},
        last_epochs={},
        aborted_later=(),
        map_bytes_max=MAP_BYTES,
    )


def _sealed(batch: bytearray, offset: int, now_ms: int, codec: int) -> bytes | bytearray:
    if codec:
        return seal_batch(
            compress(codec, memoryview(batch)[HEADER_BYTES:]),
            codec,
            BATCH_RECORDS,
            last_delta=BATCH_RECORDS - 1,
            times_ms=(now_ms, now_ms),
            base_offset=offset,
            leader_epoch=0,
        )
    struct.pack_into(">q", batch, 0, offset)
    with memoryview(batch) as whole:
        checksum = crc32c(whole[CRC_START:])
    struct.pack_into(">I", batch, CRC_POSITION, checksum)
    return batch


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What one cleaning took."""

    log_mb: float
    records: int
    seconds: float
    cpu_seconds: float
    details: dict[str, float]


def measure(kind: str, place: Path, quick: bool, codec: int) -> Cleaned:
    """Make the logs in `place`, clean them with one side's cleaner, remove them."""
    sizes = {"warmup": WARMUP_BYTES, "measured": LOG_BYTES_QUICK if quick else LOG_BYTES}
    try:
        orders = [
            (place / name, generate(place / name, size, size // RECORD_BYTES_PER_KEY, codec))
            for name, size in sizes.items()
        ]
        seconds, cpu_seconds, details = (_run_kafka if kind == "kafka" else _run_ours)(orders)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    order = orders[-1][1]
    size_mb = sum(segment.size for segment in order.segments) / 1e6
    return Cleaned(size_mb, order.upper_offset, seconds, cpu_seconds, details)


def _run_kafka(orders: list[tuple[Path, Order]]) -> tuple[float, float, dict[str, float]]:
    source = ROOT / "bench" / "KafkaCleaner.java"
    lines = [
        f"{place / DIRECTORY} {order.first_dirty_offset} {order.upper_offset} {order.now_ms}"
        f" {order.delete_retention_ms} {order.segment_bytes_max} {order.map_bytes_max}\n"
        for place, order in orders
    ]
    answer = _last_line(java_class(str(source), flags=JVM_FLAGS), "".join(lines).encode())
    words = answer.split()
    if words[:1] == ["error"] or len(words) != 3:
        raise LoadFailed(f"Kafka's cleaner: {answer}")
    return float(words[1]), float(words[2]), {}


def _run_ours(orders: list[tuple[Path, Order]]) -> tuple[float, float, dict[str, float]]:
    answer = _last_line([sys.executable, "-m", "bench.compaction"], pickle.dumps(orders))
    got = json.loads(answer)
    return got["seconds"], got["cpu_seconds"], got["details"]


def _last_line(command: list[str], told: bytes) -> str:
    done = subprocess.run(
        command, cwd=ROOT, input=told, capture_output=True, timeout=SECONDS_MAX, check=False
    )
    lines = done.stdout.decode().splitlines()
    if done.returncode or not lines:
        said = done.stderr.decode(errors="replace")[-ERROR_CHARACTERS_MAX:]
        raise LoadFailed(f"{command[0]} ended with {done.returncode}: {said}")
    return lines[-1]


def _clean_all() -> None:
    """In a process of its own: clean what standard input names, tell of the last."""
    from penstock.log.compaction.clean import chosen_engine, clean
    from penstock.real.disk import RealDisk
    from penstock.real.loop import Loop
    from penstock.real.process_stats import resident_bytes
    from penstock.real.workers import ThreadWorkers

    answer: dict[str, object] = {}
    for place, order in pickle.load(sys.stdin.buffer):
        disk, engine = RealDisk(place, ThreadWorkers(Loop())), chosen_engine()
        before_mb = _peak_mb()
        cpu, began = time.process_time(), time.perf_counter()
        report = clean(
            *(disk, order, list[object]().append, lambda: False),
            resident_bytes=resident_bytes,
            engine=engine,
        )
        answer = {
            "seconds": time.perf_counter() - began,
            "cpu_seconds": time.process_time() - cpu,
            "details": {
                "records_kept": report.records_kept,
                "cleaned_share": report.cleaned_to / order.upper_offset,
                "map_used": report.map_used,
                "peak_mb": _peak_mb(),
                "peak_mb_before": before_mb,
            },
        }
    print(json.dumps(answer))


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    _clean_all()
