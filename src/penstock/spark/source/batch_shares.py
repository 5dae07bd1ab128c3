"""The offsets of one micro-batch, and their distribution over tasks. Pure.

A Python task takes some 30 ms to start, so a small batch is one task; a large one is cut so that
every core has a share. A partition may be cut: rows of a batch have no order between tasks. A
record batch that lies on a cut is decoded twice and given out once.
"""

import itertools
from collections.abc import Mapping, Sequence

from penstock.client.raw.range_progress import OffsetRange
from penstock.model import TopicPartition
from penstock.spark.options.source import BatchLimits

RECORDS_PER_TASK_MIN = 50_000
TASKS_MAX = 10_000


def limited(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], offsets_max: int
) -> dict[TopicPartition, int]:
    """Return the end of a batch of at most `offsets_max` offsets, shared by the partitions.

    A partition with new records gets at least one, so that none waits for ever; the batch may be
    larger by that much, as with Spark's own source.
    """
    waiting = {each: max(0, latest[each] - start[each]) for each in latest}
    total = sum(waiting.values())
    if total <= offsets_max:
        return {each: max(latest[each], start[each]) for each in latest}
    return {
        each: start[each] + min(size, max(offsets_max * size // total, 1 if size else 0))
        for each, size in waiting.items()
    }


def holds_back(
    start: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    limits: BatchLimits,
    waited_ms: float,
) -> bool:
    """Return whether a batch is too small to start, and has not waited long enough."""
    if limits.offsets_min is None or waited_ms >= limits.delay_ms_max:
        return False
    new = sum(max(0, latest[each] - start.get(each, 0)) for each in latest)
    return new < limits.offsets_min


def deal(
    spans: Sequence[OffsetRange], cores: int, tasks_min: int | None, records_max: int | None
) -> list[list[OffsetRange]]:
    """Return the spans of each task: laid end to end and cut into equal shares, few for few
    records."""
    spans = [each for each in spans if each.end > each.start]
    total = sum(each.end - each.start for each in spans)
    if not total:
        return []
    tasks = _task_count(len(spans), total, cores, tasks_min, records_max)
    edges = [total * each // tasks for each in range(tasks + 1)]
    return [_between(spans, low, high) for low, high in itertools.pairwise(edges)]


def _task_count(
    partitions: int, total: int, cores: int, tasks_min: int | None, records_max: int | None
) -> int:
    wished = max(1, min(max(cores, partitions), total // RECORDS_PER_TASK_MIN))
    if tasks_min is not None:
        wished = max(wished, tasks_min)
    if records_max is not None:
        wished = max(wished, -(-total // records_max))
    return min(wished, total, TASKS_MAX)


def _between(spans: Sequence[OffsetRange], low: int, high: int) -> list[OffsetRange]:
    """Return the part of all spans between two points of their line."""
    found: list[OffsetRange] = []
    begins = 0
    for span in spans:
        size = span.end - span.start
        first = max(low, begins) - begins
        last = min(high, begins + size) - begins
        if first < last:
            found.append(OffsetRange(span.partition, span.start + first, span.start + last))
        begins += size
    return found
