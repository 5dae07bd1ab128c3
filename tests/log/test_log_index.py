"""The indexes, in memory and on disk, against a plain search."""

import random
from itertools import pairwise

import pytest
from log_builder import NOW_MS, SMALL, append, batch, disk_of, new_log, settle

from penstock.log.config import LogConfig
from penstock.log.directory import INDEX, LOG, TIME_INDEX, segment_file
from penstock.log.index import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    OffsetIndex,
    TimeIndex,
    floor_in_file,
    last_in_file,
)
from penstock.testing.sim.disk import SimDisk, SimFile
from penstock.wire.batch import HEADER


def file_of(data: bytes) -> SimFile:
    disk = SimDisk()
    disk.put("index", data)
    return disk.open("index")


@pytest.mark.parametrize("seed", range(10))
def test_a_search_by_pages_finds_what_a_plain_search_finds(seed: int) -> None:
    dice = random.Random(seed)
    count = dice.choice((0, 1, 511, 512, 513, 5_000))
    keys = sorted(dice.sample(range(1, 10**6 if seed % 2 else count * 3 + 9), count))
    pairs = [(key, place * 7 + 1) for place, key in enumerate(keys)]
    for entry in (OFFSET_ENTRY, TIME_ENTRY):
        file = file_of(b"".join(entry.pack(*pair) for pair in pairs))
        for column in (0, 1):
            for _ in range(200):
                target = dice.randrange(-2, 10**6 + 2)
                below = [pair for pair in pairs if pair[column] <= target]
                expected = below[-1] if below else None
                for high_key in (-1, 10**6):
                    assert floor_in_file(file, entry, column, target, high_key=high_key) == expected


def test_a_lookup_in_a_large_index_touches_few_pages() -> None:
    pairs = [(place * 40 + place % 13, place * 4096) for place in range(1, 250_000)]
    file = file_of(b"".join(OFFSET_ENTRY.pack(*pair) for pair in pairs))
    reads: list[int] = []
    plain_read = file.read

    class Counting:
        size = file.size
        path = file.path

        def read(self, position: int, size: int) -> bytes:
            reads.append(position)
            return plain_read(position, size)

    lookups = 500
    dice = random.Random(1)
    for _ in range(lookups):
        target = dice.randrange(41, 10_000_000)
        found = floor_in_file(Counting(), OFFSET_ENTRY, 0, target, high_key=10_000_040)  # type: ignore[arg-type]
        assert found is not None
        assert found[0] <= target < found[0] + 60
    assert len(reads) / lookups <= 2


def test_indexes_come_back_from_their_bytes_without_padding() -> None:
    index, times = OffsetIndex(), TimeIndex()
    for place in range(1, 50):
        index.add(place * 3, place * 256)
        times.add(NOW_MS + place, place * 256)
    again = OffsetIndex.from_bytes(index.to_bytes() + bytes(800), 50 * 256)
    assert again is not None
    assert again.to_bytes() == index.to_bytes()
    times_again = TimeIndex.from_bytes(bytes(times.data) + bytes(1_200))
    assert times_again is not None
    assert times_again.data == times.data


def test_an_index_that_makes_no_sense_is_refused() -> None:
    def offsets(*pairs: tuple[int, int]) -> bytes:
        return b"".join(OFFSET_ENTRY.pack(*pair) for pair in pairs)

    assert OffsetIndex.from_bytes(offsets((1, 10), (2, 20)), 100) is not None
    for bad in (
        offsets((1, 10)) + b"\1",
        offsets((2, 10), (1, 20)),
        offsets((1, 20), (2, 10)),
        offsets((1, 10), (2, 100)),
        offsets((-5, 10)),
    ):
        assert OffsetIndex.from_bytes(bad, 100) is None
    times = TIME_ENTRY.pack(10, 1) + TIME_ENTRY.pack(9, 2)
    assert TimeIndex.from_bytes(times) is None
    assert TimeIndex.from_bytes(times[:13]) is None


def test_a_time_index_keeps_rising() -> None:
    times = TimeIndex()
    for timestamp, offset in ((5, 1), (5, 2), (4, 3), (9, 4)):
        times.add(timestamp, offset)
    assert list(TIME_ENTRY.iter_unpack(bytes(times.data))) == [(5, 1), (9, 4)]
    assert times.floor(8) == (5, 1)
    assert times.floor(4) is None
    times.cut(4)
    assert times.last() == (5, 1)


def test_the_last_entry_of_an_empty_file_is_none() -> None:
    assert last_in_file(file_of(b""), TIME_ENTRY) is None


def test_entries_name_the_last_offset_of_a_batch_and_where_it_starts() -> None:
    log = new_log()
    dice = random.Random(5)
    for number in range(200):
        late = NOW_MS + number - dice.randrange(20)
        append(log, batch(*[b"v" * 30] * dice.randrange(1, 5), timestamp=late))
    settle(log)
    log.close()
    files = disk_of(log).files()
    assert len(log.closed) > 5
    for base in (*(segment.base_offset for segment in log.closed), log.active.base_offset):
        data = files[segment_file("events-0", base, LOG)]
        starts, largest = {}, {}
        position, best = 0, (-1, -1)
        while position < len(data):
            header = HEADER.unpack_from(data, position)
            last = header[0] + header[6]
            best = max(best, (header[8], -last))
            starts[last - base], largest[last - base] = position, (best[0], -best[1] - base)
            position += header[1] + 12
        index = list(OFFSET_ENTRY.iter_unpack(files[segment_file("events-0", base, INDEX)]))
        assert all(starts[last] == position for last, position in index)
        gaps = [b[1] - a[1] for a, b in pairwise(index)]
        assert all(gap > SMALL.index_interval_bytes for gap in gaps)
        times = list(TIME_ENTRY.iter_unpack(files[segment_file("events-0", base, TIME_INDEX)]))
        assert set(times) <= set(largest.values())
        assert times[-1] == largest[last - base]


def test_an_entry_comes_once_more_than_the_interval_was_written() -> None:
    one = batch(b"x" * 50)
    log = new_log(config=LogConfig(index_interval_bytes=2 * len(one)))
    for _ in range(8):
        append(log, one)
    assert list(log.active.index.positions) == [3 * len(one), 6 * len(one)]
    assert list(log.active.index.offsets) == [3, 6]
