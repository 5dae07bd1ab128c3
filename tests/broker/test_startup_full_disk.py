"""A start after a kill on directories without a byte left: all that can be read is served, topics
can be deleted, nothing is believed that was not durable, and with room everything is as ever."""

import logging
from collections.abc import Callable
from typing import TypeAlias

import pytest
from names_life import PARTITIONS, ROOTS, ROUNDS, SEEDS, SETTINGS, Names, one_act, with_checkpoints
from simulated_node import Bench
from troubled_disks import fill, heal, make_room

from depth import sample
from penstock.broker.partitions.partition_deletion import RETRY_MS
from penstock.broker.startup.startup import CLEAN_MARKER
from penstock.broker.storage.placements import (
    PLACEMENTS,
    WRITE_DELAY_MS,
    PlacementState,
    parse_placements,
)
from penstock.log.checkpoints import RECOVERY_POINTS
from penstock.testing.sim.world import WorldDisk
from penstock.world import DiskFailed, DiskFull, TooManyFiles

STEPS = sample(range(0, 60, 6), every=3)
Rename: TypeAlias = Callable[[str, str], None]


def hinder_renames(disk: WorldDisk, refusal: type[DiskFailed], name: str = "t-") -> None:
    really = disk.rename_now

    def rename_now(path: str, new: str) -> None:
        if path.startswith(name):
            raise refusal(f"injected: {path}")
        really(path, new)

    disk.rename_now = rename_now  # type: ignore[method-assign, assignment]


def offline(life: Names) -> list[str]:
    hosting = life.bench.broker.replicas
    return [str(each.failed) for each in hosting.directories if each.failed]


def remains(life: Names) -> list[str]:
    names = [name for root in ROOTS for name in life.bench.world.disks[root].list()]
    return sorted(name for name in names if name.startswith("t-"))


def starts_full(life: Names, *, power: bool = False) -> None:
    """The node dies, and the next one finds its directories full."""
    life.bench.world.kill()
    world = life.bench.world
    disks = world.disks_after_power_loss() if power else world.disks_after_kill()
    for root in ROOTS:
        fill(disks[root])
    life.start(disks)


def has_room(life: Names) -> None:
    for root in ROOTS:
        make_room(life.bench.world.disks[root])


def test_a_new_directory_without_room_is_offline_and_the_node_starts() -> None:
    life = Names(1)
    life.bench.world.kill()
    disks = life.bench.world.disks_after_kill()
    new = disks[ROOTS[1]]
    for name in new.list():
        new.remove_now(name)
    fill(new)
    life.start(disks)
    (why,) = offline(life)
    assert "injected" in why
    assert new.list() == []


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("steps", STEPS)
def test_what_can_be_read_is_served_and_with_room_it_can_be_written_to(
    steps: int, power: bool
) -> None:
    life = with_checkpoints(steps)
    for index in range(PARTITIONS):
        life.write(index, 12)  # several segments
    life.step(steps)
    starts_full(life, power=power)
    assert offline(life) == []
    assert all(map(life.served, range(PARTITIONS)))
    life.check()
    life.step(steps)
    starts_full(life, power=power)  # which finds what the one before it did
    life.check()
    has_room(life)
    for index in range(PARTITIONS):
        before = len(life.acknowledged[life.topic_id or b"", index])
        life.write(index, 2)
        assert len(life.acknowledged[life.topic_id or b"", index]) == before + 2
    life.settle()
    life.end(power=power)
    life.settle()
    life.stop()
    life.settle()


def test_what_is_durable_is_known_for_that_before_there_is_room_to_note_how_much() -> None:
    life = Names(7)
    life.create()
    life.bench.settle(1_000)
    for index in range(PARTITIONS):
        life.write(index, 20)  # several segments, and no checkpoint yet
    starts_full(life)
    life.bench.settle(4 * WRITE_DELAY_MS)
    for index in range(PARTITIONS):
        partition = life.served(index)
        assert partition is not None
        assert partition.log.recovery_point == 0
    said = parse_placements(life.bench.world.disks["meta"].files()[PLACEMENTS])
    assert {each.state for each in said.placed.values()} == {PlacementState.DURABLE}


def test_a_topic_can_be_deleted_on_a_full_disk() -> None:
    life = with_checkpoints(1)
    starts_full(life)
    life.delete()
    life.bench.simulation.run_until(lambda: life.topic_id is None)
    life.bench.settle(5_000)
    assert offline(life) == []
    assert remains(life) == []


def test_the_clean_stop_of_before_is_not_believed_after_a_start_on_a_full_disk() -> None:
    """Its marker is gone; that has to last, although the file is not written that goes with it."""
    life = with_checkpoints(2)
    disks = life.bench.stop()
    for root in ROOTS:
        fill(disks[root], RECOVERY_POINTS)
        forgets_removals(disks[root])
    life.bench = Bench(SETTINGS, disks=disks)
    for index in range(PARTITIONS):
        life.write(index, 4)
    life.end(power=True)
    life.settle()


def forgets_removals(disk: WorldDisk) -> None:
    """A name that was removed is back after a loss of power, unless something was synced since."""
    removed: dict[str, bytes] = {}
    remove_now, sync, crash = disk.remove_now, disk.sync_everything_now, disk.crash
    replace_now = disk.replace_now

    def noted_remove(path: str) -> None:
        if path == CLEAN_MARKER and disk.exists(path):
            removed[path] = disk.files()[path]
        remove_now(path)

    def noted_replace(path: str, data: bytes) -> None:
        replace_now(path, data)
        if "/" not in path:
            removed.clear()

    def noted_sync() -> None:
        sync()
        removed.clear()

    def noted_crash(seed: int | None = None) -> WorldDisk:
        after = crash(seed)
        for path, data in removed.items():
            after.put(path, data)
        return after

    disk.remove_now = noted_remove  # type: ignore[method-assign]
    disk.replace_now = noted_replace  # type: ignore[method-assign]
    disk.sync_everything_now = noted_sync  # type: ignore[method-assign]
    disk.crash = noted_crash  # type: ignore[method-assign]


# -- names that cannot be changed for want of room


@pytest.mark.parametrize("refusal", [DiskFull, TooManyFiles])
def test_a_deleted_topic_that_cannot_be_renamed_goes_later_and_is_made_anew_then(
    refusal: type[DiskFailed],
) -> None:
    life = with_checkpoints(3)
    for root in ROOTS:
        hinder_renames(life.bench.world.disks[root], refusal)
    life.delete()
    life.bench.simulation.run_until(lambda: life.topic_id is None)
    life.create()
    life.bench.settle(2 * RETRY_MS)
    assert offline(life) == []
    assert not any(map(life.served, range(PARTITIONS)))
    for root in ROOTS:
        heal(life.bench.world.disks[root])
    life.bench.settle(2 * RETRY_MS)
    for index in range(PARTITIONS):
        life.write(index, 2)
    life.settle()
    assert remains(life) == ["t-0", "t-1"]


def test_a_name_that_changed_although_the_disk_said_otherwise_is_no_loss(
    caplog: pytest.LogCaptureFixture,
) -> None:
    life = with_checkpoints(8)
    for root in ROOTS:
        disk = life.bench.world.disks[root]
        really = disk.rename_now

        def rename_now(path: str, new: str, really: Rename = really) -> None:
            really(path, new)
            if path.startswith("t-"):
                raise DiskFull(f"injected: {path}, but it is done")

        disk.rename_now = rename_now  # type: ignore[method-assign, assignment]
    life.delete()
    life.bench.simulation.run_until(lambda: life.topic_id is None)
    life.create()
    caplog.clear()
    life.bench.settle(2 * RETRY_MS)
    assert not [each for each in caplog.messages if "cannot be used any more" in each]
    life.bench.settle(5_000)
    assert remains(life) == ["t-0", "t-1"]
    assert all(map(life.served, range(PARTITIONS)))


@pytest.mark.parametrize("clean", [False, True])
def test_one_that_could_not_be_renamed_is_still_known_for_what_it_is(clean: bool) -> None:
    life = with_checkpoints(4)
    for root in ROOTS:
        hinder_renames(life.bench.world.disks[root], DiskFull)
    life.delete()
    life.bench.simulation.run_until(lambda: life.topic_id is None)
    life.bench.settle(2 * RETRY_MS)
    if clean:
        life.stop()
    else:
        life.end(power=False)
    life.bench.settle(5_000)
    assert remains(life) == []


def started_hindered(refusal: type[DiskFailed]) -> Names:
    """A start finds what is left of a deleted topic, and cannot give it another name."""
    life = with_checkpoints(5)
    for root in ROOTS:
        hinder_renames(life.bench.world.disks[root], DiskFull)
    life.delete()
    life.bench.simulation.run_until(lambda: life.topic_id is None)
    life.bench.world.kill()
    disks = life.bench.world.disks_after_kill()
    for root in ROOTS:
        heal(disks[root])
        hinder_renames(disks[root], refusal)
    life.bench = Bench(SETTINGS, disks=disks)
    assert remains(life) == ["t-0", "t-1"]
    return life


@pytest.mark.parametrize("refusal", [DiskFull, TooManyFiles])
def test_what_a_start_cannot_rename_of_a_deleted_topic_goes_later(
    refusal: type[DiskFailed],
) -> None:
    life = started_hindered(refusal)
    life.create()
    life.bench.settle(2 * RETRY_MS)
    assert offline(life) == []
    assert not any(map(life.served, range(PARTITIONS)))
    for root in ROOTS:
        heal(life.bench.world.disks[root])
    life.bench.settle(2 * RETRY_MS)
    for index in range(PARTITIONS):
        life.write(index, 2)
    life.settle()
    assert remains(life) == ["t-0", "t-1"]


@pytest.mark.parametrize("clean", [False, True])
def test_what_a_start_could_not_rename_is_known_to_the_next_one(clean: bool) -> None:
    life = started_hindered(DiskFull)
    life.bench.settle(2 * RETRY_MS)
    if clean:
        life.stop()
    else:
        life.end(power=False)
    life.bench.settle(5_000)
    assert remains(life) == []


@pytest.mark.parametrize("refusal", [DiskFull, TooManyFiles])
def test_a_refused_topic_that_cannot_be_renamed_goes_later(
    refusal: type[DiskFailed], caplog: pytest.LogCaptureFixture
) -> None:
    life = with_checkpoints(6)
    partition = life.served(0)
    assert partition is not None
    root = partition.directory.disk.root
    disks = life.bench.stop()
    log_name = next(name for name in disks[root].list("t-0") if name.endswith(".log"))
    path = f"t-0/{log_name}"
    disks[root].put(path, disks[root].files()[path][:-10])
    life.start(disks)
    assert life.bench.broker.replicas.kept_offline_count == 1
    hinder_renames(life.bench.world.disks[root], refusal, "t-0")
    life.delete()
    life.bench.simulation.run_until(lambda: life.topic_id is None)
    life.create()
    with caplog.at_level(logging.ERROR):
        life.bench.settle(2 * RETRY_MS)
    assert offline(life) == []
    assert life.served(0) is None
    heal(life.bench.world.disks[root])
    life.bench.settle(2 * RETRY_MS)
    for index in range(PARTITIONS):
        life.write(index, 2)
    life.settle()
    assert remains(life) == ["t-0", "t-1"]


# -- seeds


def fill_some(life: Names) -> bool:
    """Each directory is full now, or has room; whether one is full."""
    full = [root for root in ROOTS if life.dice.random() < 0.4]
    for root in ROOTS:
        disk = life.bench.world.disks[root]
        make_room(disk)
        if root in full:
            fill(disk)
    return bool(full)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_on_disks_that_fill_up_nothing_is_lost_seed(seed: int) -> None:
    life = Names(seed)
    dice = life.dice
    for _ in range(ROUNDS):
        for _ in range(dice.randrange(1, 7)):
            one_act(life, dice)
            life.step(dice.randrange(12))
            if dice.random() < 0.3:
                fill_some(life)
        is_full = fill_some(life)
        if dice.random() < 0.3:
            life.stop()
        else:
            life.end(power=dice.random() < 0.4)
        assert offline(life) == []
        life.away = ROOTS if is_full else ()  # what could not be made yet is not there
        life.check()
        if dice.random() < 0.5:
            life.bench.settle(3_000)
            life.check()
    has_room(life)
    life.stop()
    life.settle()
    life.bench.settle(2 * RETRY_MS)
    life.settle()
