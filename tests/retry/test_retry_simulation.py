"""Seeded stories of records, attempts and crashes: every promise holds in each story."""

from collections import Counter

import pytest
from retry_world import NAMES, OUT, STEPS, World, story

from penstock.client.records import Record
from penstock.retry.pending_keys import PendingKeys
from penstock.retry.retry_headers import Trail, read_trail

SEEDS = range(150)


def trail_of(record: Record[bytes, bytes]) -> Trail:
    return read_trail(record.headers)


def letters(world: World, topic: str) -> list[tuple[int, int]]:
    """Source offset and attempts of what was written beside the source."""
    trails = map(trail_of, world.topics.get(topic, []))
    return [(each.offset, each.attempts) for each in trails]


@pytest.mark.parametrize("guard", ["unguarded", "guarded", "guarded in memory"])
@pytest.mark.parametrize("ordered", [False, True], ids=["any order", "ordered"])
def test_every_record_is_tried_and_its_fate_is_written_once(ordered: bool, guard: str) -> None:
    in_memory = guard == "guarded in memory"
    for seed in SEEDS:
        world, history = story(
            seed, ordered=ordered, guarded=guard == "guarded", in_memory=in_memory
        )
        source = world.topics[NAMES.topic]
        garbage = {each.offset for each in source if each.value == b"garbage"}
        every = set(range(len(source)))
        assert set(history.tried) == every - garbage, seed
        assert history.committed == every, seed
        dead = [offset for offset, _ in letters(world, NAMES.dead)]
        assert len(dead) == len(set(dead)) and garbage <= set(dead), seed
        results = [int(each.value or b"") for each in world.topics.get(OUT, [])]
        assert sorted([*results, *dead]) == sorted(every), seed
        failures = {
            (each.offset, each.attempts, each.last_failed_ms)
            for topic in STEPS.topics
            for each in map(trail_of, world.topics.get(topic, []))
            if each.attempts
        }
        # One that had to wait again behind another is there again, with the same failure.
        written = Counter((offset, attempts) for offset, attempts, _ in failures)
        assert all(count == 1 for count in written.values()), seed
        assert all(a == 3 for o, a in letters(world, NAMES.dead) if o not in garbage), seed


def test_in_order_the_results_of_a_key_stand_in_its_order() -> None:
    for seed in SEEDS:
        world, _ = story(seed, ordered=True, guarded=False)
        for key in (b"a", b"b", b"c"):
            results = [
                int(each.value or b"") for each in world.topics.get(OUT, []) if each.key == key
            ]
            assert results == sorted(results), seed


def test_in_the_end_no_key_is_left_waiting() -> None:
    for seed in SEEDS:
        world, _ = story(seed, ordered=True, guarded=False)
        pending = PendingKeys()
        pending.restore((each.key, each.value) for each in world.topics.get(NAMES.pending, []))
        assert len(pending) == 0 and pending.keys == 0, seed


def test_a_record_that_waits_behind_another_has_no_attempt_counted() -> None:
    behind = 0
    for seed in SEEDS:
        world, _ = story(seed, ordered=True, guarded=False)
        behind += sum(attempts == 0 for _, attempts in letters(world, STEPS.topics[0]))
    assert behind > 100


def test_the_same_seed_tells_the_same_story() -> None:
    first, second = story(7, ordered=True, guarded=True), story(7, ordered=True, guarded=True)
    assert first[0].topics == second[0].topics and first[1].tried == second[1].tried
