"""Compaction against a plain dict of the newest record per key, over logs made by chance.

PENSTOCK_SIM_RUNS says how many. A failure names its seed.
"""

import pytest
from compaction_judge import tell, view_of
from compaction_story import Story, story_of

from depth import seeds
from penstock.log.compaction.chunks import CleaningEngine, position_of
from penstock.log.compaction.order import Segment
from penstock.log.compaction.plain import PlainEngine
from penstock.wire.batch import batch_headers

SEEDS = seeds(60, few=20, first=0)
SOME = 20
in_parts = pytest.mark.parametrize("start", SEEDS[::SOME])


@in_parts
def test_seeds_leave_the_newest_record_of_each_key(start: int) -> None:
    for seed in range(start, start + SOME):
        try:
            tell(story_of(seed), PlainEngine())
        except BaseException as failure:
            failure.add_note(f"seed {seed}")
            raise


def clean_whole(story: Story, engine: CleaningEngine, map_bytes_max: int) -> int:
    """Clean until nothing is dirty; in how many passes."""
    passes = 0
    while passes == 0 or story.first_dirty_offset < story.order().upper_offset:
        before = story.first_dirty_offset
        story.clean(engine, map_bytes_max=map_bytes_max)
        assert passes == 0 or story.first_dirty_offset > before, "every pass gets further"
        passes += 1
    return passes


@in_parts
def test_seeds_give_the_same_in_many_passes_as_in_one(start: int) -> None:
    many = 0
    for seed in range(start, start + SOME):
        one_pass, passes = story_of(seed), story_of(seed)
        for story in (one_pass, passes):
            story.write_on()
        assert clean_whole(one_pass, PlainEngine(), 1 << 16) == 1
        many = max(many, clean_whole(passes, PlainEngine(), 24 * 6))
        first, second = view_of(one_pass), view_of(passes)
        assert [seen.record for seen in first.committed] == [
            seen.record for seen in second.committed
        ], f"seed {seed}"
        assert first.last_offsets == second.last_offsets
    assert many > 1


@in_parts
def test_seeds_come_to_rest_under_a_clock_that_stands_still(start: int) -> None:
    for seed in range(start, start + SOME):
        story = story_of(seed)
        story.write_on()
        # The first removes the data, the second finds markers without any and dates them.
        settled = []
        for _ in range(4):
            story.clean(PlainEngine())
            settled.append([batch for _, batch in story.batches()])
        assert settled[1 if story.shape.transactions else 0 :] == settled[-1:] * (
            3 if story.shape.transactions else 4
        ), f"seed {seed}"


@in_parts
def test_seeds_are_found_again_from_any_offset(start: int) -> None:
    """A reader that begins anywhere is led by the index to a batch at or before its offset."""
    for seed in range(start, start + SOME):
        story = story_of(seed)
        story.write_on()
        order, _ = story.clean(PlainEngine())
        ends = [*story.bases[1:], story.end_offset]
        for base, end in zip(story.bases[:-1], ends, strict=False):
            segment = Segment(base, end, story.size_of(base), -1, False)
            starts = dict(batch_headers(story.bytes_of(base)))
            for offset in range(base, end):
                position = position_of(story.disk, order.directory, segment, offset)
                assert position == 0 or starts[position][0] <= offset, f"seed {seed}"
