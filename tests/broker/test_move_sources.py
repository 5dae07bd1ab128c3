"""What a move leaves behind counts no more, and stays until it is certain that no start can take
the partition for one that was never made; then it goes, also if its topic was deleted meanwhile."""

import logging
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pytest
from moving_life import Life, arrived, check, directories, served, start
from three_directories import ROOTS, begun
from troubled_disks import break_renames, break_writes, heal

from penstock.broker.moves import move
from penstock.broker.startup import move_recovery, startup
from penstock.broker.storage.placements import PLACEMENTS, WRITE_DELAY_MS
from penstock.errors import KafkaStorageError
from penstock.log import future_log
from penstock.log.future_log_markers import FutureMark, read_future_marks, write_future_marks
from penstock.testing.sim.world import WorldDisk
from penstock.world import Disk, DiskFailed, DiskFull, Done, TooManyFiles

HANGS_MS = 60_000.0


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(future_log, "PIECE_BYTES", 150)
    monkeypatch.setattr(move, "HELD_BYTES_MAX", 200)


def hang(life: Life, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever waits for this disk waits for long."""
    disk, world = life.bench.world.disks[root], life.bench.world
    really = disk.later

    def later(work: Callable[[], None], done: Done) -> None:
        world.simulation.schedule(HANGS_MS, world, lambda: really(work, done), "hangs")

    monkeypatch.setattr(disk, "later", later)


# -- until the file of placements names the target


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize(
    "wait_ms", [0, 1, 5, 20, 100, WRITE_DELAY_MS - 1, WRITE_DELAY_MS + 5, 2_000]
)
def test_a_partition_that_has_just_moved_is_not_made_anew_without_its_target(
    wait_ms: float, power: bool
) -> None:
    life, source, target, _ = begun()
    life.ask(target)
    arrived(life, target)
    life.write(2)
    life.bench.settle(wait_ms)
    before = [] if power else life.acknowledged[:]
    start(life, away=target, power=power)
    assert not served(life)
    life.write(2)
    start(life, away=None, power=False)
    assert served(life)
    assert life.place == target
    assert life.values()[: len(before)] == before
    life.bench.settle(20_000)
    assert directories(life, source) == []


def test_a_start_that_finds_a_move_finished_and_is_killed_loses_nothing() -> None:
    """It puts the original away; the next one is without the target."""
    for wait_ms in (0, 1, 5, 50, 450, 600):
        life, source, target, _ = begun()
        life.ask(target)
        arrived(life, target)
        life.write(2)
        start(life, away=None, power=False)
        life.bench.settle(wait_ms)
        start(life, away=target, power=False)
        assert not served(life), wait_ms
        start(life, away=None, power=False)
        assert life.values() == life.acknowledged, wait_ms
        life.bench.settle(20_000)
        assert directories(life, source) == []


def two_have_moved(*, apart: bool = False) -> tuple[Life, str, str, str]:
    """t-0 and u-0 have moved, and the file of placements still says that they were made where they
    are no more. What would be made anew would be made in the third directory, which is empty, or
    has u-0 if they moved apart."""
    life, source, target, other = begun(records=0)  # nothing of it is known to be durable
    life.bench.create_topic("f", 2)
    life.bench.create_topic("u")
    hosting = life.bench.broker.replicas
    life.bench.simulation.run_until(
        lambda: "u" in hosting.by_name and len(hosting.by_name["f"]) == 2
    )
    places = {index: each.directory.disk.root for index, each in hosting.by_name["f"].items()}
    assert hosting.by_name["u"][0].directory.disk.root == source
    for index, root in places.items():
        if root == other:
            life.ask(source, "f", index)
    life.bench.settle(10 * WRITE_DELAY_MS)
    assert [len(each.partitions) for each in hosting.directories] == [3, 1, 0]
    break_writes(life.bench.world.disks["meta"], PLACEMENTS)
    targets = {"t": target, "u": other if apart else target}
    for topic, root in targets.items():
        life.ask(root, topic)
    life.bench.simulation.run_until(
        lambda: all(
            hosting.by_name[topic][0].directory.disk.root == root for topic, root in targets.items()
        )
    )
    life.write(2)
    life.quiet()
    assert len(life.acknowledged) == 2
    return life, source, target, other


@pytest.mark.parametrize(
    ("room", "call", "name"),
    [
        (startup, "open_log", "f-0"),  # while the logs are opened
        (move_recovery, "write_future_marks", "t-0"),  # before anything was found out of the moves
        (move_recovery, "write_future_marks", "u-0"),  # between the first of them and the second
    ],
)
def test_a_target_that_fails_in_the_middle_of_a_start_does_not_make_a_partition_anew(
    room: ModuleType, call: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    life, source, target, other = two_have_moved()
    really: Callable[..., Any] = getattr(room, call)

    def fail(disk: WorldDisk, directory: str, *arguments: Any, **named: Any) -> Any:
        if disk.root == target and directory == name:
            raise DiskFailed("injected while it was looked at")
        return really(disk, directory, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(room, call, fail)
        start(life, away=None, power=False)
    life.bench.settle(1_000)
    assert not served(life)
    assert directories(life, other) == []
    start(life, away=None, power=False)
    assert served(life) and life.place == target
    assert life.values() == life.acknowledged
    life.bench.settle(20_000)
    assert directories(life, source) == []


def test_another_target_that_fails_in_the_middle_of_a_start_leaves_no_original_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    life, source, target, other = two_have_moved(apart=True)
    really = write_future_marks

    def fail(disk: Disk, directory: str, marks: Sequence[FutureMark]) -> None:
        if disk.root == other:
            raise DiskFailed("injected while it was looked at")
        really(disk, directory, marks)

    with monkeypatch.context() as patched:
        patched.setattr(move_recovery, "write_future_marks", fail)
        start(life, away=None, power=False)
    assert served(life) and life.place == target
    life.bench.settle(20_000)
    assert directories(life, source) == []
    life.ask(source)
    life.arrive(source)
    assert life.values() == life.acknowledged


@pytest.mark.parametrize("decided", [False, True])
@pytest.mark.parametrize("refusal", [DiskFull, TooManyFiles])
def test_a_copy_that_cannot_be_marked_for_want_of_room_is_the_only_one_offline(
    refusal: type[DiskFailed], decided: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And only if it is not marked already."""
    life, _, target, _ = begun()
    life.ask(target)
    arrived(life, target)
    life.write(2)
    disk = life.bench.world.disks[target]
    (mark,) = read_future_marks(disk, "t-0")
    assert mark.decided
    write_future_marks(disk, "t-0", [mark._replace(decided=decided)])

    def fail(*_arguments: object) -> None:
        raise refusal("injected")

    with monkeypatch.context() as patched:
        patched.setattr(move_recovery, "write_future_marks", fail)
        start(life, away=None, power=False)
    assert served(life) == (decided and refusal is DiskFull)
    assert not any(each.failed for each in life.bench.broker.replicas.directories)
    start(life, away=None, power=False)
    assert served(life) and life.values() == life.acknowledged


def test_the_original_stays_while_it_cannot_be_written_down_where_the_partition_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    life, source, target, _ = begun()
    break_writes(life.bench.world.disks["meta"], PLACEMENTS)
    life.ask(target)
    life.arrive(target)
    life.write(2)
    with caplog.at_level(logging.ERROR):
        life.bench.settle(60_000)
    assert directories(life, source) == ["t-0"]
    assert any("keep what they have left" in each for each in caplog.messages)
    start(life, away=target, power=False)
    assert not served(life)
    with pytest.raises(KafkaStorageError, match=f"to {target} .*cannot be read"):
        life.bench.broker.replicas.find("t", 0)
    start(life, away=None, power=False)
    assert life.values() == life.acknowledged


def test_the_original_goes_when_it_can_be_written_down_again() -> None:
    life, source, target, _ = begun()
    meta = life.bench.world.disks["meta"]
    break_writes(meta, PLACEMENTS)
    life.ask(target)
    life.arrive(target)
    life.bench.settle(30_000)
    assert directories(life, source) == ["t-0"]
    heal(meta)
    life.bench.settle(30_000)
    assert directories(life, source) == []
    assert directories(life, target) == ["t-0"]


# -- the last wish wins


@pytest.mark.parametrize(
    "wishes", ["TST", "TUT", "TS", "TU", "TSTS", "TUS", "STS", "UTUS", "TSU", "TUTS"]
)
@pytest.mark.parametrize("between_ms", [0, 1, 3, 6, 10, 14, 18, 25, 60, 400])
def test_the_last_wish_wins(wishes: str, between_ms: float) -> None:
    life, source, target, other = begun(20)
    where = {"S": source, "T": target, "U": other}
    for wish in wishes:
        assert life.ask(where[wish]) == 0
        if between_ms:
            life.bench.settle(between_ms)
    life.bench.settle(30_000)
    assert life.place == where[wishes[-1]]
    assert life.values() == life.acknowledged
    found = [name for root in ROOTS for name in directories(life, root)]
    assert found == ["t-0"]


@pytest.mark.parametrize("wishes", ["TST", "TUT", "TS", "TU", "TUTS"])
def test_the_last_wish_wins_after_a_disk_that_hangs(
    wishes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    life, source, target, other = begun(20)
    where = {"S": source, "T": target, "U": other}
    hang(life, target, monkeypatch)
    for wish in wishes:
        life.ask(where[wish])
        life.bench.settle(100)
    monkeypatch.undo()
    life.bench.settle(4 * HANGS_MS)
    assert life.place == where[wishes[-1]]


@pytest.mark.parametrize("wishes", ["T", "TS", "TU", "TUT", "TUS"])
@pytest.mark.parametrize("between_ms", [0, 1, 3, 6, 10, 14, 18])
def test_the_last_wish_outlives_a_stop(wishes: str, between_ms: float) -> None:
    life, source, target, other = begun(20)
    where = {"S": source, "T": target, "U": other}
    for wish in wishes:
        life.ask(where[wish])
        if between_ms:
            life.bench.settle(between_ms)
    life.restart(life.bench.stop())
    life.bench.settle(30_000)
    assert life.place == where[wishes[-1]]
    assert life.values() == life.acknowledged


def test_a_wish_that_waits_for_a_disk_that_hangs_turns_no_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    life, _, target, other = begun(20)
    hang(life, target, monkeypatch)
    life.ask(target)
    life.bench.settle(10)
    life.ask(other)
    timers = life.bench.world.timers
    really, turns = timers.soon, []

    def soon(call: Callable[[], None]) -> object:
        turns.append(call)
        return really(call)

    monkeypatch.setattr(timers, "soon", soon)
    life.bench.settle(3_000)
    assert len(turns) < 10


# -- what is left in a third place


def offered_and_moved_on() -> tuple[Life, str, str, str]:
    """A copy that never counted is left in the target; the partition has moved on to another."""
    life, source, target, other = begun()
    disk = life.bench.world.disks[target]
    really = disk.rename_now

    def rename_now(path: str, new: str) -> None:
        if new == "t-0":
            really(path, new)
            raise DiskFailed("injected: done, but reported failed")
        if path == "t-0":
            raise DiskFailed("injected: it cannot be taken back")
        really(path, new)

    disk.rename_now = rename_now  # type: ignore[method-assign, assignment]
    life.ask(target)
    life.bench.settle(1_000)
    assert life.place == source
    assert "t-0" in directories(life, target)
    heal(disk)
    life.write(3)
    life.ask(other)
    life.arrive(other)
    life.write(3)
    life.bench.settle(2_000)
    return life, source, target, other


def test_a_partition_whose_disk_is_away_is_looked_for_there_and_nowhere_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    life, _, target, other = offered_and_moved_on()
    for _ in range(3):  # what is said does not change what is known
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            start(life, away=other, power=False)
        assert not served(life)
        (said,) = [each for each in caplog.messages if "t-0 stays offline" in each]
        assert f"{other} (directory.id" in said
        assert "penstock-moved-from" not in said
        assert target not in said.split("(")[0].split()
    start(life, away=None, power=False)
    assert life.place == other
    assert life.values() == life.acknowledged
    life.bench.settle(20_000)
    found = [name for root in ROOTS for name in directories(life, root)]
    assert found == ["t-0"]


def test_an_old_original_is_not_offered_for_use_if_the_partition_has_moved_on_twice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    life, source, target, other = begun()
    break_renames(life.bench.world.disks[source], "t-0")
    life.ask(target)
    life.arrive(target)
    life.bench.settle(2_000)
    life.write(3)
    life.ask(other)
    life.arrive(other)
    life.bench.settle(2_000)
    life.write(3)
    for _ in range(2):
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            start(life, away=other, power=False)
        assert not served(life)
        (said,) = [each for each in caplog.messages if "t-0 stays offline" in each]
        assert f"{other} (directory.id" in said
        assert "penstock-moving-to" not in said
    start(life, away=None, power=False)
    assert life.place == other
    assert life.values() == life.acknowledged


# -- deleted topics


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("starts", [0, 1, 2])
def test_what_a_deleted_topic_left_in_a_directory_that_failed_goes_when_that_is_back(
    starts: int, clean: bool, anew: bool
) -> None:
    life, source, target, _ = begun()
    break_renames(life.bench.world.disks[source], "t-0")
    life.ask(target)
    life.arrive(target)
    life.bench.settle(2_000)
    assert directories(life, source) == ["t-0"]
    life.delete()
    life.bench.settle(3_000)
    if anew:
        life.bench.create_topic("t")
        life.bench.settle(1_000)
    for _ in range(starts):
        start(life, away=source, power=False)
        life.bench.settle(2_000)
    if clean:
        disks = life.bench.stop()
        for disk in disks.values():
            heal(disk)
        life.restart(disks)
    else:
        start(life, away=None, power=False)
    life.bench.settle(20_000)
    found = sorted(name for root in ROOTS for name in directories(life, root))
    assert found == (["t-0"] if anew else [])


def test_a_topic_that_is_deleted_right_after_its_move_leaves_nothing() -> None:
    for wait_ms in (0, 1, 3, 10, 100, 499, 501, 505):
        life, _, target, _ = begun()
        life.ask(target)
        arrived(life, target)
        life.bench.settle(wait_ms)
        life.delete()
        life.bench.create_topic("t")
        life.write()
        life.bench.settle(20_000)
        found = [name for root in ROOTS for name in directories(life, root)]
        assert found == ["t-0"], wait_ms


def test_a_topic_that_is_deleted_right_after_its_move_leaves_nothing_over_a_kill() -> None:
    for wait_ms in (0, 1, 2, 3, 5, 8, 12, 100, 600):
        life, _, target, _ = begun()
        life.ask(target)
        arrived(life, target)
        life.delete()
        life.bench.settle(10 + wait_ms)
        start(life, away=None, power=False)
        life.bench.settle(20_000)
        found = [name for root in ROOTS for name in directories(life, root)]
        assert found == [], wait_ms


def test_a_copy_in_doubt_goes_with_its_topic_when_its_disk_is_back() -> None:
    life, source, target, _ = begun()
    disk = life.bench.world.disks[target]
    really = disk.rename_now

    def rename_now(path: str, new: str) -> None:
        if path == "t-0":
            raise DiskFailed("injected: it cannot be taken back")
        really(path, new)
        if new == "t-0":
            raise DiskFailed("injected: done, but reported failed")

    disk.rename_now = rename_now  # type: ignore[method-assign, assignment]
    life.ask(target)
    life.bench.settle(1_000)
    assert life.place == source
    life.delete()
    life.bench.settle(5_000)
    start(life, away=None, power=False)
    life.bench.settle(20_000)
    assert [name for root in ROOTS for name in directories(life, root)] == []


# -- given up by a person


def test_an_original_that_was_taken_into_use_again_counts_when_the_copy_is_back() -> None:
    life, source, target, _ = begun()
    life.ask(target)
    arrived(life, target)
    start(life, away=target, power=False)
    assert not served(life)
    life.bench.world.disks[source].remove_now("t-0/penstock-moving-to")
    start(life, away=target, power=False)
    assert served(life)
    life.write(2)
    start(life, away=None, power=False)
    assert life.place == source
    check(life, "given up")


def test_a_copy_that_was_decided_counts_before_an_original_of_which_nothing_is_known() -> None:
    life, source, target, _ = begun()
    life.ask(target)
    arrived(life, target)
    life.write(2)
    life.bench.world.kill()
    disks = life.bench.world.disks_after_kill()
    disks[source].remove_now("t-0/penstock-moving-to")
    disks["meta"].remove_now(PLACEMENTS)
    life.restart(disks)
    assert life.place == target
    assert life.values() == life.acknowledged
    assert [each for each in directories(life, source) if each.endswith("-stray")]
