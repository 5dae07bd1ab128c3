"""What compaction refuses, and what it leaves when it is stopped or the disk fails."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from compaction_judge import view_of
from compaction_story import DIRECTORY, NOW_MS, Shape, Story, run

from penstock.log.compaction import chunks
from penstock.log.compaction.chunks import CleaningEngine
from penstock.log.compaction.clean import clean
from penstock.log.compaction.compiled import CompiledEngine
from penstock.log.compaction.order import (
    CleaningProgress,
    CompactionRejected,
    CompactionStopped,
    Order,
    SegmentGroup,
)
from penstock.log.compaction.plain import PlainEngine
from penstock.log.directory import CLEANED, INDEX, LOG
from penstock.testing.sim.disk import MemoryDisk, SimDisk
from penstock.wire.batch import Record, build_batch, seal_batch, skim_records, unpack_batch
from penstock.wire.compression import UNPACKED_BYTES_MIN, compress
from penstock.wire.primitives import Malformed
from penstock.world import DiskFailed, DiskFull, FileLost


@pytest.fixture(params=[PlainEngine, CompiledEngine], ids=["plain", "compiled"])
def engine(request: pytest.FixtureRequest) -> CleaningEngine:
    make: Callable[[], CleaningEngine] = request.param
    return make()


def one_batch(batch: bytes, offsets: int = 10) -> tuple[Story, Order]:
    """A log of one closed segment that holds just this."""
    story = Story(random.Random(0))
    story.disk.open(story.path(0, LOG)).append((batch,))
    story.end_offset = offsets
    story.bases.append(offsets)
    story.disk.put(story.path(offsets, LOG), b"")
    return story, story.order()


def records(count: int = 3, base: int = 0) -> list[Record]:
    return [Record(base + place, NOW_MS, b"k%d" % place, b"v") for place in range(count)]


def body_of(batch: bytes) -> bytes:
    return batch[61:]


def refused(batch: bytes, engine: CleaningEngine, words: str, offsets: int = 10) -> None:
    story, order = one_batch(batch, offsets)
    with pytest.raises(CompactionRejected, match=words) as refusal:
        run(story.disk, order, engine)
    assert "00000000000000000000.log, byte 0" in str(refusal.value)
    assert not [path for path in story.disk.files() if path.endswith(CLEANED)]
    assert story.bytes_of(0) == batch


def test_a_batch_that_does_not_match_its_checksum_is_refused(engine: CleaningEngine) -> None:
    batch = bytearray(build_batch(records()))
    batch[-1] ^= 1
    refused(bytes(batch), engine, "checksum")


def test_a_batch_that_is_cut_short_is_refused(engine: CleaningEngine) -> None:
    refused(build_batch(records())[:-1], engine, "cut short")


def test_a_batch_of_an_older_format_is_refused(engine: CleaningEngine) -> None:
    batch = bytearray(build_batch(records()))
    batch[16] = 1
    refused(bytes(batch), engine, "format 2")


def test_a_batch_outside_of_its_segment_is_refused(engine: CleaningEngine) -> None:
    refused(build_batch(records()), engine, "outside of its segment", offsets=2)


def test_a_batch_larger_than_any_may_be_is_refused(
    engine: CleaningEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 80)
    monkeypatch.setattr(chunks, "BATCH_BYTES_MAX", 100)
    refused(build_batch(records(9)), engine, "a batch of")


def test_a_batch_larger_than_a_chunk_is_cleaned(
    engine: CleaningEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 80)
    story, order = one_batch(build_batch(records(9)))
    (group,), report = run(story.disk, order, engine)
    assert (group.size, report.records_kept) == (story.size_of(0), 9)


def test_offsets_that_fall_from_one_chunk_to_the_next_are_refused(
    engine: CleaningEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 80)
    story, order = one_batch(build_batch(records()) + build_batch(records(), base_offset=2))
    with pytest.raises(CompactionRejected, match="offsets do not rise"):
        run(story.disk, order, engine)


@pytest.mark.parametrize("codec", range(1, 5))
def test_what_grows_beyond_measure_when_it_is_unpacked_is_refused(
    engine: CleaningEngine, codec: int
) -> None:
    body = body_of(build_batch([Record(0, NOW_MS, b"k", bytes(2 * UNPACKED_BYTES_MIN))]))
    batch = seal_batch(compress(codec, body), codec, 1, last_delta=0, times_ms=(NOW_MS, NOW_MS))
    story, order = one_batch(batch)
    with pytest.raises(CompactionRejected, match=r"offset 0: the records grow beyond"):
        run(story.disk, replace(order, message_bytes_max=1_000), engine)


def passed_over(batch: bytes, engine: CleaningEngine, offsets: int = 10) -> None:
    """It is kept as it is between others, whose older records of the same keys go."""
    older = build_batch(records())
    newer = (3 + offsets).to_bytes(8) + older[8:]
    between = (3).to_bytes(8) + batch[8:]
    story, order = one_batch(older + between + newer, 6 + offsets)
    (group,), report = run(story.disk, order, engine)
    cleaned = story.disk.files()[story.path(0, LOG) + CLEANED]
    assert cleaned == between + newer
    assert (report.flawed_kept, report.records_kept, group.size) == (1, 3, len(cleaned))


def test_what_cannot_be_unpacked_is_passed_over(engine: CleaningEngine) -> None:
    batch = seal_batch(b"no such thing", 4, 1, last_delta=0, times_ms=(NOW_MS, NOW_MS))
    passed_over(batch, engine)


def test_a_value_that_reaches_beyond_its_record_is_passed_over(engine: CleaningEngine) -> None:
    lying = bytes((20, 0, 0, 0, 2, ord("k"), 0xD0, 0x0F, 1, 2, 3))  # a value of 1,000 bytes
    passed_over(seal_batch(lying, 0, 1, last_delta=0, times_ms=(NOW_MS, NOW_MS)), engine)


def test_keys_of_a_flawed_batch_count_for_nothing(engine: CleaningEngine) -> None:
    good = body_of(build_batch(records(600)))
    flawed = seal_batch(good + b"\0", 0, 600, last_delta=599, times_ms=(NOW_MS, NOW_MS))
    older = build_batch(records(600))
    story, order = one_batch(older + (600).to_bytes(8) + flawed[8:], 1_200)
    _, report = run(story.disk, order, engine)
    assert report.records_kept == 600


@pytest.mark.parametrize("codec", [0, 3])
def test_records_that_are_not_what_they_say_are_passed_over(
    engine: CleaningEngine, codec: int
) -> None:
    body = body_of(build_batch(records()))

    def sealed(data: bytes, count: int = 3, last_delta: int = 2) -> bytes:
        packed = compress(codec, data)
        times = NOW_MS, NOW_MS
        return seal_batch(packed, codec, count, last_delta=last_delta, times_ms=times)

    passed_over(sealed(body + b"\0"), engine)
    passed_over(sealed(body, 4, 3), engine)
    passed_over(sealed(body, 1_000, 999), engine, offsets=2_000)
    passed_over(sealed(body, 3, 1), engine)
    passed_over(sealed(body + body, 6, 5), engine)
    passed_over(sealed(bytes([body[0] + 2]) + body[1:]), engine)
    # The size of the first key reaches beyond its record.
    passed_over(sealed(body[:4] + bytes([40]) + body[5:]), engine)


def test_both_ways_pass_over_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 300)
    dice = random.Random(5)
    good = build_batch(records(6), compression=0)
    for _ in range(400):
        data = bytearray(body_of(good))
        data[dice.randrange(len(data))] = dice.randrange(256)
        batch = seal_batch(
            data, 0, dice.choice((6, 6, 6, 5)), last_delta=5, times_ms=(NOW_MS, NOW_MS)
        )
        outcomes: list[tuple[object, dict[str, bytes]]] = []
        for engine in (PlainEngine(), CompiledEngine()):
            story, order = one_batch(batch)
            outcomes.append((run(story.disk, order, engine), story.disk.files()))
        assert outcomes[0] == outcomes[1]


def test_seeds_of_what_the_broker_lets_in_can_be_cleaned() -> None:
    for seed in range(400):
        dice = random.Random(seed)
        data = bytearray(body_of(build_batch(records(6))))
        for _ in range(dice.choice((1, 1, 2, 3))):
            data[dice.randrange(len(data))] = dice.randrange(256)
        batch = seal_batch(bytes(data), 0, 6, last_delta=5, times_ms=(NOW_MS, NOW_MS))
        story, order = one_batch(batch)
        _, report = run(story.disk, order, PlainEngine())
        try:
            let_in = len(list(skim_records(*unpack_batch(batch)))) == 6
        except Malformed:
            let_in = False
        assert not let_in or report.flawed_kept == 0, seed


# ---- stopping, disks


def written(disk: SimDisk | None = None) -> Story:
    story = Story(random.Random(3), Shape(batches=80), disk=disk or SimDisk(3))
    story.write_on()
    story.disk.sync_everything_now()
    return story


def live(story: Story) -> dict[str, bytes]:
    return {path: data for path, data in story.disk.files().items() if not path.endswith(CLEANED)}


def test_a_cleaning_that_is_told_to_stop_stops_between_chunks(engine: CleaningEngine) -> None:
    story, said, asked = written(), list[SegmentGroup | CleaningProgress](), []

    def stop() -> bool:
        asked.append(len(said))
        return len(said) == 2

    with pytest.raises(CompactionStopped):
        clean(story.disk, story.order(segment_bytes_max=1), said.append, stop, engine=engine)
    assert len(said) == 2
    for group in said:
        assert isinstance(group, SegmentGroup)
        story.swap(group)
    assert len(asked) > 4


def test_what_an_earlier_cleaning_left_is_removed(engine: CleaningEngine) -> None:
    story = written()
    story.disk.put(f"{DIRECTORY}/00000000000000000777.log{CLEANED}", b"half")
    order = story.order()
    groups, _ = run(story.disk, order, engine)
    left = {path for path in story.disk.files() if path.endswith(LOG + CLEANED)}
    assert left == {story.path(group.base_offset, LOG) + CLEANED for group in groups}


def test_a_cleaning_keeps_to_its_bytes_per_second(engine: CleaningEngine) -> None:
    story, pauses, clock = written(), list[float](), [100.0]

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        clock[0] += seconds

    order = replace(story.order(), io_bytes_per_second_max=1_000.0)
    report = clean(
        *(story.disk, order, list[object]().append, lambda: False),
        clock=lambda: clock[0],
        pause=pause,
        engine=engine,
    )
    moved = report.bytes_read + report.bytes_written
    assert report.bytes_written > 0
    assert moved / 1_000 == pytest.approx(report.seconds), "what is written counts as what is read"
    assert max(pauses) <= 0.1, "it can be stopped in between"


def test_somebody_who_waits_hears_how_far_it_is(
    engine: CleaningEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.log.compaction.clean.SAY_EVERY_BYTES", 1)
    story, said = written(), list[SegmentGroup | CleaningProgress]()
    report = clean(story.disk, story.order(), said.append, lambda: False, engine=engine)
    steps = [each for each in said if isinstance(each, CleaningProgress)]
    assert [each.done_bytes for each in steps] == sorted(each.done_bytes for each in steps)
    assert {each.step for each in steps} == {"reading keys", "copying"}
    assert {each.total_bytes for each in steps} == {report.bytes_read}


def test_a_segment_that_somebody_removed_or_cut_is_lost_not_refused(engine: CleaningEngine) -> None:
    story = written()
    order = story.order()
    path = story.path(order.segments[1].base_offset, LOG)
    story.disk.open(path).truncate_now(70)
    with pytest.raises(FileLost):
        run(story.disk, order, engine)
    story.disk.remove_now(path)
    with pytest.raises(FileLost):
        run(story.disk, order, engine)


def test_an_index_that_lies_costs_time_only(engine: CleaningEngine) -> None:
    story = written()
    dirty = story.order().segments[2]
    story.first_dirty_offset = dirty.base_offset + 3
    good = run(story.disk, story.order(), engine)
    for broken in (b"\0\0\0\1\0\0\0\7" * 9, b"\0\0\0\1\x7f\0\0\0", b"", b"\0\0\0\0\0\0\0\0"):
        story.disk.put(story.path(dirty.base_offset, INDEX), broken)
        groups, report = run(story.disk, story.order(), engine)
        assert groups == good[0] and report.records_kept == good[1].records_kept


@pytest.mark.parametrize("full", [True, False])
def test_seeds_of_failing_disks_leave_the_log_as_it_was(engine: CleaningEngine, full: bool) -> None:
    for after in range(0, 60, 3):
        story = written()
        before, seen = live(story), view_of(story)
        story.disk.fail_write(after, full=full)
        try:
            clean(story.disk, story.order(), list[object]().append, lambda: False, engine=engine)
        except DiskFull:
            assert full
        except DiskFailed:
            assert not full
        assert live(story) == before
        assert view_of(story) == seen


def test_seeds_of_crashes_keep_what_was_said_and_the_log_itself(engine: CleaningEngine) -> None:
    for seed in range(20):
        story = written(SimDisk(seed))
        before, said = live(story), list[SegmentGroup | CleaningProgress]()
        story.disk.fail_sync(seed)
        try:
            clean(story.disk, story.order(), said.append, lambda: False, engine=engine)
        except DiskFailed:
            pass
        promised = {
            path: data
            for path, data in story.disk.files().items()
            for group in said
            if isinstance(group, SegmentGroup) and f"/{group.base_offset:020d}" in path
        }
        after = story.disk.crash(seed).files()
        assert {path: after[path] for path in before} == before
        assert {path: after[path] for path in promised} == promised


class SmallDisk(MemoryDisk):
    """What is free of it falls as cleaned files grow, and beside that as the test likes."""

    least = 1 << 62

    def free_bytes(self) -> int:
        files = self.files().items()
        left = self.free - sum(len(data) for path, data in files if path.endswith(CLEANED))
        self.least = min(self.least, left)
        return left


def test_a_cleaning_ends_before_it_writes_into_what_is_to_stay_free(
    engine: CleaningEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 200)
    disk = SmallDisk()
    story = Story(random.Random(1), disk=disk)
    story.write_on()
    disk.free = 3_000
    order = replace(story.order(), free_bytes_min=2_000)
    said: list[SegmentGroup] = []
    with pytest.raises(DiskFull, match="not for compaction"):
        clean(
            disk,
            order,
            lambda it: said.append(it) if isinstance(it, SegmentGroup) else None,
            lambda: False,
            engine=engine,
        )
    assert 2_000 <= disk.least < 2_500
    whole = {each.base_offset for each in said}
    left = {path for path in disk.files() if path.endswith(CLEANED)}
    assert {int(path.partition("/")[2][:20]) for path in left} <= whole  # the rest is given back


def test_a_cleaning_that_fits_exactly_is_done(engine: CleaningEngine) -> None:
    disk = SmallDisk()
    story = Story(random.Random(1), disk=disk)
    story.write_on()
    groups, _ = run(disk, story.order(), engine)
    indexes = sum(len(data) for path, data in disk.files().items() if path.endswith(CLEANED))
    indexes -= sum(group.size for group in groups)
    disk.free = 2_000 + sum(group.size for group in groups) + indexes
    assert run(disk, replace(story.order(), free_bytes_min=2_000), engine)[0] == groups
