"""The ends of a move: what its marks say is true whatever happens meanwhile, what it met on its way
is not lost, and nobody waits for what never comes."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from moving_life import Life, arrived, directories, served
from three_directories import begun
from troubled_disks import break_renames, break_writes, heal

from penstock.broker.moves import move
from penstock.broker.startup import startup
from penstock.broker.storage.placements import PLACEMENTS
from penstock.errors import KafkaStorageError
from penstock.log import future_log
from penstock.log.checkpoints import START_OFFSETS
from penstock.log.future_log import FutureLog, MoveNames
from penstock.log.future_log_markers import FutureMark, read_future_marks, write_future_marks
from penstock.log.log import Log
from penstock.log.recovery import open_log
from penstock.model import id_to_text
from penstock.testing.sim.world import WorldDisk
from penstock.world import Disk, DiskFailed, DiskFull, Done, File

LONG_MS = 60_000.0


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(future_log, "PIECE_BYTES", 150)
    monkeypatch.setattr(move, "HELD_BYTES_MAX", 200)


def killed(life: Life) -> dict[str, WorldDisk]:
    life.bench.world.kill()
    disks = life.bench.world.disks_after_kill()
    for disk in disks.values():
        heal(disk)
    return disks


# -- marks


def moved_twice() -> tuple[Life, str, str, str]:
    """The first original could not be put away."""
    life, source, target, other = begun(10)
    break_renames(life.bench.world.disks[source], "t-0")
    life.ask(target)
    life.arrive(target)
    life.bench.settle(2_000)
    life.partition.delete_before(3)
    life.ask(other)
    life.arrive(other)
    life.bench.settle(2_000)
    life.write(2)
    return life, source, target, other


def test_a_partition_that_moved_twice_is_known_by_its_marks_alone() -> None:
    life, source, _, other = moved_twice()
    expected = life.acknowledged[3:]
    disks = killed(life)
    disks["meta"].remove_now(PLACEMENTS)
    life.restart(disks)
    assert served(life) and life.place == other
    assert life.values() == expected
    life.bench.settle(20_000)
    assert directories(life, source) == []


def test_of_the_places_of_one_that_moved_twice_the_one_is_named_that_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    life, _, target, other = begun(10)
    break_writes(life.bench.world.disks["meta"], PLACEMENTS)
    for root in (target, other):
        life.ask(root)
        life.arrive(root)
    really = open_log

    def fail(disk: Disk, *arguments: Any, **named: Any) -> Log:
        if disk.root == other:
            raise DiskFailed("injected while it was looked at")
        return really(disk, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(startup, "open_log", fail)
        life.restart(killed(life))
    with pytest.raises(KafkaStorageError, match=f"{other} failed .injected"):
        life.bench.broker.replicas.find("t", 0)
    life.restart(killed(life))
    assert life.place == other
    assert life.values() == life.acknowledged


def test_of_several_marks_the_one_counts_that_says_how_much_was_deleted_last() -> None:
    life, _, _, other = moved_twice()
    disks = killed(life)
    (mark,) = read_future_marks(disks[other], "t-0")
    assert mark.start_offset == 0
    last = mark._replace(token="last", start_offset=3)
    write_future_marks(disks[other], "t-0", [last, mark])
    disks[other].remove_now(START_OFFSETS)
    life.restart(disks)
    assert life.place == other
    assert life.partition.log.start_offset == 3


def test_what_is_deleted_while_the_copy_becomes_durable_is_in_its_mark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    life, _, target, _ = begun(10)
    disk, world = life.bench.world.disks[target], life.bench.world
    prepare, offload_all = FutureLog.prepare, disk.offload_all
    prepared: list[int] = []

    def prepare_and_delete(copy: FutureLog, crossing: MoveNames, start_offset: int) -> None:
        prepare(copy, crossing, start_offset)
        prepared.append(start_offset)
        life.partition.delete_before(3)

    def offload_slowly(works: Sequence[Callable[[], None]], done: Done) -> None:
        """What the log writes for the deletion is over before it is told that the copy is."""

        def slowly(failure: DiskFailed | None) -> None:
            wait_ms = 100 if len(prepared) == 1 else 0
            world.simulation.schedule(wait_ms, world, lambda: done(failure), "told")

        offload_all(works, slowly)

    monkeypatch.setattr(FutureLog, "prepare", prepare_and_delete)
    monkeypatch.setattr(disk, "offload_all", offload_slowly)
    life.ask(target)
    arrived(life, target)
    assert prepared == [0, 3]
    (mark,) = read_future_marks(disk, "t-0")
    assert mark.start_offset == 3


def test_copies_that_were_only_offered_do_not_make_each_other_superfluous() -> None:
    """Whatever became of the original: neither of them is removed."""
    life, source, target, other = begun(10)
    directory = life.partition.directory
    disks = killed(life)
    files = {path: data for path, data in disks[source].files().items() if path.startswith("t-0/")}
    for root in (target, other):
        for path, data in files.items():
            disks[root].put(path, data)
        offered = FutureMark(id_to_text(directory.directory_id), f"to {root}"[3:], 0, decided=False)
        write_future_marks(disks[root], "t-0", [offered])
    disks[source].remove_now("t-0")
    life.restart(disks)
    assert not served(life)
    life.bench.settle(20_000)
    assert directories(life, target) == ["t-0"]
    assert directories(life, other) == ["t-0"]


def test_a_copy_that_counted_once_is_in_the_way_and_stays() -> None:
    life, source, target, _ = begun(10)
    disk = life.bench.world.disks[target]
    for path, data in life.bench.world.disks[source].files().items():
        if path.startswith("t-0/"):
            disk.put(path, data)
    decided = FutureMark(
        id_to_text(life.partition.directory.directory_id), "token", 0, decided=True
    )
    write_future_marks(disk, "t-0", [decided])
    life.ask(target)
    life.bench.settle(5_000)
    assert life.place == source
    assert directories(life, target) == ["t-0"]
    assert read_future_marks(disk, "t-0") == [decided]


def test_a_wish_that_was_fulfilled_leaves_nothing() -> None:
    life, source, _, _ = begun(10)
    disks = killed(life)
    metadata = disks[source].files()["t-0/partition.metadata"]
    disks[source].put(f"t-0.{'0' * 32}-future/partition.metadata", metadata)
    life.restart(disks)
    life.bench.settle(20_000)
    assert directories(life, source) == ["t-0"]


# -- who waits


def test_who_waited_for_the_sync_of_the_source_is_answered_when_the_copy_is_durable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And who writes afterwards does not wait for the source either."""
    life = Life(settings={"metadata.log.dir": "meta"})  # acknowledged when it is durable
    life.write(5)
    life.quiet()
    target = life.elsewhere
    disk, world = life.bench.world.disks[life.place], life.bench.world
    really = disk.sync_files

    def sync_files(files: Sequence[File], done: Done) -> None:
        world.simulation.schedule(LONG_MS, world, lambda: really(files, done), "hangs")

    monkeypatch.setattr(disk, "sync_files", sync_files)
    life.write(2)  # the second one waits for a round that has not begun
    assert len(life.unanswered) == 2
    life.ask(target)
    arrived(life, target)
    life.bench.settle(10)
    life.listen()
    assert life.unanswered == []
    life.write(1)
    life.bench.settle(100)
    life.listen()
    assert life.unanswered == []
    life.bench.settle(2 * LONG_MS)
    assert life.values() == life.acknowledged


def test_no_producer_waits_while_the_source_lacks_room_for_its_indexes() -> None:
    life, source, target, _ = begun(5)
    disk = life.bench.world.disks[source]
    really = disk.replace_now

    def replace_now(path: str, data: bytes) -> None:
        if path.endswith("index"):
            raise DiskFull(f"injected: {path}")
        really(path, data)

    disk.replace_now = replace_now  # type: ignore[method-assign]
    life.write(10)  # begins new segments
    assert life.partition.log.chores.stalled
    life.ask(target)
    simulation = life.bench.simulation
    until_ms = simulation.now_ms + 10_000
    while simulation.now_ms < until_ms:
        simulation.step()
        assert not life.partition.held
    assert life.place == source
    heal(disk)
    life.arrive(target)
    assert life.values() == life.acknowledged


def test_a_topic_that_is_deleted_while_the_last_steps_fail_leaves_its_name_to_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    life, source, target, _ = begun(5)
    partition, world = life.partition, life.bench.world
    disk = world.disks[target]
    rename_now, offload_all = disk.rename_now, disk.offload_all
    waiting: list[bool] = []

    def fail(path: str, new: str) -> None:
        if new == "t-0":
            raise DiskFailed(f"injected: {path}")
        rename_now(path, new)

    def wait(works: Sequence[Callable[[], None]], done: Done) -> None:
        under_way = life.bench.broker.moves.of(partition)
        if under_way is not None and under_way.finishing and not waiting:
            waiting.append(True)
            world.simulation.schedule(LONG_MS, world, lambda: offload_all(works, done), "hangs")
        else:
            offload_all(works, done)

    monkeypatch.setattr(disk, "rename_now", fail)
    monkeypatch.setattr(disk, "offload_all", wait)
    life.ask(target)
    life.bench.simulation.run_until(lambda: bool(waiting))
    life.delete()
    life.bench.simulation.run_until(lambda: "t" not in life.bench.broker.image.topics)
    life.bench.create_topic("t")
    life.bench.settle(2 * LONG_MS)
    assert served(life)
    assert directories(life, source) in ([], ["t-0"])


def test_a_move_counts_on_no_room_that_the_cleaner_was_promised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    life, _, target, _ = begun(5)
    broker = life.bench.broker
    directory = broker.replicas.directory_at(target)
    assert directory is not None
    directory.spare_bytes = life.partition.log.size
    broker.moves.check_room(life.partition, directory)
    monkeypatch.setattr(broker.cleaner, "claimed_bytes", lambda _directory: 1)
    with pytest.raises(KafkaStorageError, match=f"{life.partition.log.size - 1} are free"):
        broker.moves.check_room(life.partition, directory)
