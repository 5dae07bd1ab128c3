"""The compiled way writes the same bytes as the plain one, and says the same."""

import random

import pytest
from compaction_judge import tell
from compaction_story import Story, run, story_of

from depth import seeds
from penstock.log.compaction.compiled import CompiledEngine
from penstock.log.compaction.plain import PlainEngine
from penstock.log.directory import CLEANED

SEEDS = seeds(60, few=20, first=0)


def cleaned(story: Story) -> dict[str, bytes]:
    return {path: data for path, data in story.disk.files().items() if path.endswith(CLEANED)}


@pytest.mark.parametrize("start", SEEDS[::20])
def test_seeds_give_the_same_bytes_both_ways(start: int) -> None:
    for seed in range(start, start + 20):
        story = story_of(seed)
        for _ in range(4):
            story.write_on()
            order = story.order(map_bytes_max=story.dice.choice((24 * 4, 24 * 40, 1 << 16)))
            plain = run(story.disk, order, PlainEngine()), cleaned(story)
            groups, report = run(story.disk, order, CompiledEngine())
            assert ((groups, report), cleaned(story)) == plain, f"seed {seed}"
            for group in groups:
                story.swap(group)
            story.first_dirty_offset = report.cleaned_to
            story.now_ms += story.dice.choice((0, 500, 2_000))


def test_a_seed_leaves_the_newest_record_of_each_key_in_machine_code_too() -> None:
    story = story_of(1)
    story.dice = random.Random(2)
    tell(story, CompiledEngine())
