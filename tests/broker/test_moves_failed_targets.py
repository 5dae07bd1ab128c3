"""The directory that a partition has just moved to fails: what the move left behind stays, as only
a start can tell what counts; but it goes with its topic, and keeps no name from one made anew."""

import logging

import pytest
from finished_move import SETTINGS, finished_at_start
from moving_life import Life, arrived, names, served, start
from troubled_disks import break_writes, heal

from depth import sample
from penstock.broker.moves import move
from penstock.broker.storage.move_sources import RETRY_MS
from penstock.broker.storage.placements import PLACEMENTS, WRITE_DELAY_MS
from penstock.log import future_log
from penstock.log.checkpoints import RECOVERY_POINTS
from penstock.log.directory import MOVING_TO_FILE
from penstock.log.future_log_markers import read_future_marks, read_source_mark, write_future_marks
from penstock.testing.sim.world import WorldDisk
from penstock.world import DiskFailed, DiskFull, TooManyFiles

STEPS = sample(range(0, 60, 3), every=4)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(future_log, "PIECE_BYTES", 150)
    monkeypatch.setattr(move, "HELD_BYTES_MAX", 200)


def target_failed(seed: int = 7) -> tuple[Life, str, str]:
    """A life with a partition that has moved, and whose directory failed right after that."""
    life = Life(seed, settings=SETTINGS)
    life.write(5)
    life.bench.settle(2 * WRITE_DELAY_MS)
    source, target = life.place, life.elsewhere
    break_writes(life.bench.world.disks[target], RECOVERY_POINTS)
    life.ask(target)
    arrived(life, target)
    life.bench.settle(2 * WRITE_DELAY_MS)
    assert not served(life)
    assert names(life)[source] == ["t-0"]
    return life, source, target


def is_deleted(life: Life) -> bool:
    return "t" not in life.bench.broker.image.topics


def delete(life: Life) -> None:
    life.quiet()
    life.delete()
    life.bench.simulation.run_until(lambda: is_deleted(life))
    life.acknowledged.clear()


def remains(life: Life) -> list[str]:
    return sorted(name for listed in names(life).values() for name in listed)


def test_a_topic_that_is_made_anew_gets_the_place_of_what_a_move_had_left() -> None:
    life, source, target = target_failed()
    delete(life)
    life.bench.create_topic("t")
    life.write(2)
    life.quiet()
    assert served(life)
    assert life.place == source
    assert len(life.acknowledged) == 2
    life.bench.settle(5_000)
    assert names(life)[source] == ["t-0"]
    start(life, away=None, power=False)
    assert life.place == source
    assert life.values() == life.acknowledged
    life.bench.settle(5_000)
    assert names(life)[target] == []


def test_what_a_move_had_left_goes_with_its_topic() -> None:
    life, source, target = target_failed()
    delete(life)
    life.bench.settle(5_000)
    assert names(life)[source] == []
    start(life, away=None, power=False)
    life.bench.settle(5_000)
    assert names(life)[target] == []


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("steps", STEPS)
def test_wherever_the_node_dies_nothing_of_the_deleted_topic_comes_back(
    steps: int, power: bool, anew: bool
) -> None:
    life, _, target = target_failed(steps + 1)
    life.delete()
    if anew:
        life.bench.simulation.run_until(lambda: is_deleted(life))
        life.bench.turn(lambda: life.bench.create_topic("t"))
    for _ in range(steps):
        life.bench.simulation.step()
    deleted = is_deleted(life) or anew
    start(life, away=target, power=power)
    life.bench.settle(3_000)
    if not deleted and not is_deleted(life):
        return  # it died before that was decided
    life.acknowledged.clear()
    if is_deleted(life):
        life.bench.create_topic("t")
    life.write(2)
    life.quiet()
    assert len(life.acknowledged) == 2
    start(life, away=None, power=power)
    assert life.values() == life.acknowledged
    life.bench.settle(5_000)
    assert remains(life) == ["t-0"]


def test_an_original_goes_when_the_partition_has_moved_on_from_where_the_disk_failed() -> None:
    life = Life(settings=SETTINGS | {"log.dirs": "one,two,three"})
    life.write(5)
    life.bench.settle(2 * WRITE_DELAY_MS)
    source = life.place
    target, other = (root for root in ("one", "two", "three") if root != source)
    meta = life.bench.world.disks["meta"]
    break_writes(meta, "penstock-placements")
    life.ask(target)
    life.arrive(target)
    life.ask(other)
    life.arrive(other)
    directory = life.bench.broker.replicas.directory_at(target)
    assert directory is not None
    directory.take_offline(DiskFailed("injected"))
    heal(meta)
    life.bench.settle(30_000)
    assert names(life)[source] == []
    life.ask(source)
    life.arrive(source)
    life.write(2)
    assert life.values() == life.acknowledged


# -- the same at a start


def test_what_a_start_left_for_a_target_that_failed_after_it_goes_with_its_topic() -> None:
    life, source, target, disks = finished_at_start()
    disk = disks[target]

    def fail_soon() -> None:
        del disk.__dict__["sync_everything_now"]
        raise DiskFailed(f"injected: {disk.root}")

    disk.sync_everything_now = fail_soon  # type: ignore[method-assign]
    life.restart(disks)
    assert not served(life)
    assert names(life)[source] == ["t-0"]
    delete(life)
    life.bench.create_topic("t")
    life.write(2)
    assert life.place == source
    assert len(life.acknowledged) == 2
    start(life, away=None, power=False)
    assert life.values() == life.acknowledged
    life.bench.settle(5_000)
    assert remains(life) == ["t-0"]


@pytest.mark.parametrize("refusal", [DiskFull, TooManyFiles])
def test_an_original_that_a_start_cannot_rename_for_want_of_room_goes_later(
    refusal: type[DiskFailed], caplog: pytest.LogCaptureFixture
) -> None:
    life, source, target, disks = finished_at_start()
    disk = disks[source]
    really = disk.rename_now

    def rename_now(path: str, new: str) -> None:
        if path == "t-0":
            raise refusal("injected")
        really(path, new)

    disk.rename_now = rename_now  # type: ignore[method-assign, assignment]
    life.restart(disks)
    assert served(life)
    assert life.place == target
    assert not any(each.failed for each in life.bench.broker.replicas.directories)
    life.write(2)
    life.bench.settle(2 * RETRY_MS)
    assert names(life)[source] == ["t-0"]
    heal(disk)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        life.bench.settle(2 * RETRY_MS)
    assert names(life)[source] == []
    assert caplog.messages == []
    assert life.values() == life.acknowledged


def refuse_renames(disk: WorldDisk, name: str) -> None:
    """For want of room."""
    really = disk.rename_now

    def rename_now(path: str, new: str) -> None:
        if path.startswith(name):
            raise DiskFull(f"injected: {path}")
        really(path, new)

    disk.rename_now = rename_now  # type: ignore[method-assign, assignment]


def none_failed(life: Life) -> bool:
    return not any(each.failed for each in life.bench.broker.replicas.directories)


def test_a_copy_that_was_only_offered_and_cannot_be_renamed_is_in_nobodys_way() -> None:
    life, source, target, disks = finished_at_start()
    disks[source].remove_now(f"t-0/{MOVING_TO_FILE}")
    (mark,) = read_future_marks(disks[target], "t-0")
    write_future_marks(disks[target], "t-0", [mark._replace(decided=False)])
    refuse_renames(disks[target], "t-0")
    life.restart(disks)
    assert served(life) and none_failed(life)
    assert life.place == source
    life.bench.settle(2 * RETRY_MS)
    assert names(life)[target] == ["t-0"]
    heal(disks[target])
    life.bench.settle(2 * RETRY_MS)
    assert names(life)[target] == []


def test_a_mark_that_cannot_be_taken_back_for_want_of_room_keeps_one_partition_offline() -> None:
    life, source, target, disks = finished_at_start()
    future = f"t-0.{read_departure_token(disks[source])}-future"
    disks[target].rename_now("t-0", future)
    refuse_renames(disks[source], f"t-0/{MOVING_TO_FILE}")
    life.restart(disks)
    assert none_failed(life)
    assert not served(life)
    start(life, away=None, power=False)
    assert served(life)
    life.arrive(target)  # as was wished


def read_departure_token(disk: WorldDisk) -> str:
    departure = read_source_mark(disk, "t-0")
    assert departure is not None
    return departure.token


def test_what_is_not_used_and_cannot_be_set_aside_for_want_of_room_keeps_nobody_offline() -> None:
    life, source, target, disks = finished_at_start()
    disks[source].remove_now(f"t-0/{MOVING_TO_FILE}")
    disks["meta"].remove_now(PLACEMENTS)
    refuse_renames(disks[source], "t-0")
    life.restart(disks)
    assert served(life) and none_failed(life)
    assert life.place == target
    life.write(2)
    life.bench.settle(2 * WRITE_DELAY_MS)
    start(life, away=None, power=False)
    assert life.place == target
    assert life.values() == life.acknowledged
    assert [each for each in names(life)[source] if each.endswith("-stray")]


def test_an_old_wish_that_cannot_be_removed_for_want_of_room_takes_nothing_offline() -> None:
    life, source, _, disks = finished_at_start()
    old = f"u-0.{'0' * 32}-future"  # of a topic that is no more
    disks[source].put(f"{old}/partition.metadata", b"")
    refuse_renames(disks[source], old)
    life.restart(disks)
    assert served(life) and none_failed(life)
    start(life, away=None, power=False)
    life.bench.settle(5_000)
    assert old not in disks[source].list()
