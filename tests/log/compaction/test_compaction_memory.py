"""The map takes what the rest of the process leaves of its budget."""

import random

import pytest
from compaction_story import Story
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.compaction.clean import clean
from penstock.log.compaction.memory import (
    MAP_BYTES_MIN,
    PROCESS_BYTES_MAX,
    WORK_BYTES,
    map_bytes,
)
from penstock.log.compaction.offset_map import OffsetMap
from penstock.log.compaction.plain import PlainEngine

MIB = 1024 * 1024
DEFAULT = 128 * MIB


def test_a_process_that_keeps_to_its_part_leaves_the_whole_map() -> None:
    assert map_bytes(DEFAULT, PROCESS_BYTES_MAX - WORK_BYTES) == DEFAULT


def test_what_a_process_takes_beyond_its_part_the_map_does_without() -> None:
    assert map_bytes(DEFAULT, PROCESS_BYTES_MAX - WORK_BYTES + 20 * MIB) == DEFAULT - 20 * MIB


def test_a_map_keeps_half_of_its_size_however_large_the_process_is() -> None:
    assert map_bytes(DEFAULT, 1_000 * MIB) == DEFAULT // 2


def test_where_the_system_does_not_tell_the_map_is_whole() -> None:
    assert map_bytes(DEFAULT, None) == DEFAULT


@pytest.mark.parametrize("bytes_max", [48, 1_000, MAP_BYTES_MIN])
def test_a_small_map_is_not_made_smaller(bytes_max: int) -> None:
    assert map_bytes(bytes_max, 1_000 * MIB) == bytes_max


@given(st.integers(48, 1 << 33), st.integers(0, 1 << 33))
def test_map_and_process_keep_to_the_promise_unless_the_map_is_at_its_least(
    bytes_max: int, resident_bytes: int
) -> None:
    taken = map_bytes(bytes_max, resident_bytes)
    least = min(bytes_max, max(bytes_max // 2, MAP_BYTES_MIN))
    assert least <= taken <= bytes_max
    fits = taken + resident_bytes + WORK_BYTES <= bytes_max + PROCESS_BYTES_MAX
    assert fits or taken == least


class Watched(PlainEngine):
    """Knows how large the map was to be."""

    def __init__(self) -> None:
        self.map_bytes = 0

    def new_map(self, bytes_max: int, load_max: float, seed: int) -> OffsetMap:
        self.map_bytes = bytes_max
        return super().new_map(bytes_max, load_max, seed)


@pytest.mark.parametrize(("resident_bytes", "expected"), [(None, 4 * MIB), (1_000 * MIB, 2 * MIB)])
def test_a_cleaning_makes_its_map_after_what_its_process_takes(
    resident_bytes: int | None, expected: int
) -> None:
    story = Story(random.Random(1))
    story.write_on()
    story.end_offset += 1_000_000  # more offsets than a map of four megabytes has room for
    story.write_on()
    order, engine = story.order(map_bytes_max=4 * MIB), Watched()
    clean(
        *(story.disk, order, lambda _said: None, lambda: False),
        resident_bytes=lambda: resident_bytes,
        engine=engine,
    )
    assert engine.map_bytes == expected
