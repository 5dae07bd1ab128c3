"""Apache Kafka's own cleaner and ours over copies of the same logs: batch by batch the same.

The logs are those of tests/log/compaction, made by chance. What is not compressed must be the same
bytes; of compressed batches the header and the records, because two libraries compress
differently. Indexes are compared by Kafka's dump tool, which reads ours.
"""

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.servers import ROOT, scratch
from compat.dump import GAP, complaints, dump
from compat.records import Oracle
from compat.report import Report

sys.path.insert(0, str(ROOT / "tests" / "log" / "compaction"))

from compaction_story import DIRECTORY, Shape, Story

from penstock.log.compaction.clean import chosen_engine
from penstock.log.compaction.order import Order
from penstock.wire.batch import (
    ATTRIBUTES,
    CODEC_MASK,
    CRC,
    LENGTH,
    Header,
    batch_headers,
    read_records,
)

SEEDS = 40
ROUNDS = 3


def kafka_cleans(oracle: Oracle, directory: Path, order: Order) -> int:
    """Let Kafka clean a log in its place; the offset it came to."""
    answer = oracle.ask(
        *(directory, order.first_dirty_offset, order.upper_offset, order.now_ms),
        *(order.delete_retention_ms, order.segment_bytes_max, order.map_bytes_max),
    )
    return int(answer.split()[0])


def story_of(seed: int) -> Story:
    dice = random.Random(seed)
    shape = Shape(keys=dice.choice((2, 10, 200)), segment_bytes=dice.choice((1_500, 4_000)))
    # Kafka forgets producers that were last heard of long ago, by its own clock.
    return Story(dice, shape, now_ms=int(time.time() * 1000))


def batches(data: bytes) -> Iterator[tuple[Header, bytes]]:
    for position, header in batch_headers(data):
        yield header, data[position : position + 12 + header[LENGTH]]


def same(ours: bytes, theirs: bytes) -> bool:
    """Whether two segments hold the same."""
    left, right = list(batches(ours)), list(batches(theirs))
    return len(left) == len(right) and all(
        one == other or (_is_packed(one[0]) and _unpacked(*one) == _unpacked(*other))
        for one, other in zip(left, right, strict=True)
    )


def _is_packed(header: Header) -> bool:
    return bool(header[ATTRIBUTES] & CODEC_MASK)


def _unpacked(header: Header, batch: bytes) -> tuple[object, ...]:
    fields = [field for place, field in enumerate(header) if place not in (LENGTH, CRC)]
    return (*fields, *read_records(batch))


def put(story: Story, place: Path) -> Path:
    """The log as files."""
    directory = place / DIRECTORY
    directory.mkdir(parents=True)
    for path, data in story.disk.files().items():
        (place / path).write_bytes(data)
    return directory


def compare(oracle: Oracle, seed: int, place: Path) -> str:
    """What differs between the two cleaners; empty if nothing does."""
    story = story_of(seed)
    for number in range(ROUNDS):
        story.write_on()
        order = story.order()
        if order.first_dirty_offset >= order.upper_offset:
            continue  # Kafka has nothing to do
        directory = put(story, place / f"{seed}-{number}")
        _, report = story.clean(chosen_engine())
        cleaned_to = kafka_cleans(oracle, directory, order)
        if cleaned_to != report.cleaned_to:
            return f"seed {seed}: cleaned to {report.cleaned_to}, Kafka to {cleaned_to}"
        theirs = {int(path.stem): path.read_bytes() for path in directory.glob("*.log")}
        ours = {base: story.bytes_of(base) for base in story.bases}
        if sorted(theirs) != sorted(ours):
            return f"seed {seed}: segments {sorted(ours)}, Kafka has {sorted(theirs)}"
        for base, data in ours.items():
            if not same(data, theirs[base]):
                return f"seed {seed}, round {number}: segment {base} differs"
        story.now_ms += story.dice.choice((0, 500, 2_000))
    return ""


def check_compaction(report: Report) -> None:
    with scratch() as place, Oracle(ROOT / "bench" / "KafkaCleaner.java") as oracle:
        differences = [compare(oracle, seed, place) for seed in range(SEEDS)]
        found = [each for each in differences if each]
        fact = (
            f"{SEEDS} logs, {ROUNDS} cleanings each: batch by batch as Kafka's cleaner leaves them"
        )
        report.expect(not found, fact, "\n".join(found))
        story = story_of(SEEDS)
        story.write_on()
        story.clean(chosen_engine())
        files = sorted(put(story, place / "dumped").glob("*.*"))
        logs = [path for path in files if path.suffix == ".log"]
        indexes = [path for path in files if path.suffix in (".index", ".timeindex", ".txnindex")]
        output = dump(logs, "--deep-iteration") + dump(indexes)
        # A compacted log has gaps.
        found = [line for line in complaints(output) if not GAP.match(line)]
        fact = "Kafka's dump tool reads segments and indexes"
        report.expect(not found, fact, "\n".join(found[:20]))
