"""Which segments become one, and the indexes of what is written."""

import random
from dataclasses import replace

import numpy as np
import pytest
from compaction_story import DIRECTORY, NOW_MS, ORDER, noted_indexes

from penstock.log.compaction.clean import group_segments
from penstock.log.compaction.cleaned_segment import CleanedSegment
from penstock.log.compaction.order import CompactionRejected, Order, Segment
from penstock.log.directory import CLEANED, INDEX, LOG, TIME_INDEX, TXN_INDEX, segment_file
from penstock.log.index import RELATIVE_OFFSET_MAX
from penstock.log.transactions import Aborted, pack_aborted
from penstock.testing.sim.disk import MemoryDisk
from penstock.wire.batch import Record, build_batch


def segment(base: int, size: int = 10, end: int | None = None) -> Segment:
    return Segment(base, base + 10 if end is None else end, size, -1, False)


def bases(groups: list[tuple[Segment, ...]]) -> list[list[int]]:
    return [[each.base_offset for each in group] for group in groups]


def no_indexes(_segment: Segment) -> tuple[int, int]:
    return 0, 0


def test_neighbours_are_joined_while_they_fit_into_one_segment() -> None:
    segments = [segment(0, 40), segment(10, 60), segment(20, 1), segment(30, 100), segment(40, 7)]
    groups = group_segments(segments, 100, 1_000, no_indexes)
    assert bases(groups) == [[0, 10], [20], [30], [40]]


def test_a_segment_larger_than_the_limit_is_a_group_of_its_own() -> None:
    groups = group_segments([segment(0, 500), segment(10, 1)], 100, 1_000, no_indexes)
    assert bases(groups) == [[0], [10]]


def test_both_indexes_of_a_group_stay_within_their_limit() -> None:
    sizes = {0: (50, 10), 10: (50, 10), 20: (1, 10), 30: (1, 95)}
    segments = [segment(base) for base in sizes]
    groups = group_segments(segments, 1_000, 100, lambda each: sizes[each.base_offset])
    assert bases(groups) == [[0, 10], [20], [30]]


def test_offsets_of_a_group_stay_within_the_reach_of_an_index() -> None:
    far = RELATIVE_OFFSET_MAX + 1
    inside = [segment(0), segment(10, end=far)]
    assert bases(group_segments(inside, 1_000, 1_000, no_indexes)) == [[0, 10]]
    beyond = [segment(0), segment(10, end=far + 1)]
    assert bases(group_segments(beyond, 1_000, 1_000, no_indexes)) == [[0], [10]]


def test_an_empty_segment_joins_however_far_it_reaches() -> None:
    segments = [segment(0), segment(10, 0, end=2**40), segment(2**40)]
    assert bases(group_segments(segments, 1_000, 1_000, no_indexes)) == [[0, 10], [2**40]]


def test_no_segments_make_no_group() -> None:
    assert group_segments([], 100, 100, no_indexes) == []


# ---- what is written


def written(
    order: Order, batches: list[bytes], at_once: int, aborted: list[Aborted] | None = None
) -> dict[str, bytes]:
    """The files of a cleaned segment, by suffix."""
    disk = MemoryDisk()
    disk.make_directory(DIRECTORY)
    cleaned = CleanedSegment(disk, order, (segment(100, end=2**40),))
    for first in range(0, len(batches), at_once):
        some = batches[first : first + at_once]
        rows = [(len(each), last_offset(each), int.from_bytes(each[35:43])) for each in some]
        cleaned.write(b"".join(some), np.array(rows, np.int64))
    group = cleaned.finish(aborted or [])
    assert group.size == sum(map(len, batches))
    assert (group.base_offset, group.end_offset, group.old) == (100, 2**40, (100,))
    prefix = segment_file(DIRECTORY, 100, "")
    return {path.removeprefix(prefix): data for path, data in disk.files().items()}


def last_offset(batch: bytes) -> int:
    return int.from_bytes(batch[:8]) + int.from_bytes(batch[23:27])


def batches_of(seed: int) -> list[bytes]:
    dice, offset, made = random.Random(seed), 100, []
    for _ in range(60):
        record = Record(offset, NOW_MS + dice.randrange(-50, 50), b"k", bytes(dice.randrange(90)))
        made.append(build_batch([record], base_offset=offset))
        offset += dice.randint(1, 5)
    return made


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("at_once", [1, 7, 60])
def test_indexes_are_those_of_appending_one_by_one(seed: int, at_once: int) -> None:
    batches = batches_of(seed)
    files = written(ORDER, batches, at_once)
    offsets, times = noted_indexes(100, b"".join(batches), ORDER.index_interval_bytes)
    assert files[LOG + CLEANED] == b"".join(batches)
    assert (files[INDEX + CLEANED], files[TIME_INDEX + CLEANED]) == (offsets, times)
    assert TXN_INDEX + CLEANED not in files


def test_indexes_end_at_their_limit_and_the_largest_time_is_told_nevertheless() -> None:
    rising = [
        build_batch([Record(100 + at, NOW_MS + at, b"k", bytes(80))], base_offset=100 + at)
        for at in range(40)
    ]
    files = written(replace(ORDER, index_bytes_max=40), rising, 40)
    assert len(files[INDEX + CLEANED]) == 40
    assert len(files[TIME_INDEX + CLEANED]) == 36
    assert files[TIME_INDEX + CLEANED][-12:-4] == (NOW_MS + 39).to_bytes(8)


def test_aborted_transactions_get_their_index() -> None:
    aborted = [Aborted(3, 100, 110, 111), Aborted(4, 105, 130, 131)]
    files = written(ORDER, batches_of(1), 10, aborted)
    assert files[TXN_INDEX + CLEANED] == b"".join(map(pack_aborted, aborted))


def test_a_segment_beyond_what_an_index_can_tell_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.log.compaction.cleaned_segment.SEGMENT_BYTES_MAX", 1_000)
    with pytest.raises(CompactionRejected, match=r"segment\.bytes"):
        written(ORDER, batches_of(1), 1)
