"""A topic whose partition is offline is deleted and made again, as the node itself advises. What
was never made is not taken for lost, and what may be on a disk that is away not for never made."""

import pytest
from names_life import PARTITIONS, ROOTS, SETTINGS, Names, with_checkpoints
from simulated_node import Bench
from troubled_disks import heal, take_away

from depth import sample
from penstock.broker.storage.placements import COMING, PLACEMENTS, WRITE_DELAY_MS
from penstock.log.checkpoints import START_OFFSETS, format_offsets, read_offsets
from penstock.model import TopicPartition
from penstock.testing.sim.world import WorldDisk
from penstock.wire.batch import batch_headers
from penstock.wire.messages import k20_delete_topics as k20

STEPS = sample(range(0, 60, 3), every=4)
FIRST_SEGMENT = "00000000000000000000.log"


def damaged(seed: int) -> tuple[Names, str]:
    """A life in which the directory of t-0 lost the end of its records; and which one that is."""
    life = Names(seed)
    life.create()
    life.bench.settle(1_000)
    life.write(0, 3)
    partition = life.served(0)
    assert partition is not None
    root = partition.directory.disk.root
    disks = life.bench.stop()
    path = f"t-0/{FIRST_SEGMENT}"
    disks[root].put(path, disks[root].files()[path][:-10])
    life.start(disks)
    assert life.bench.broker.replicas.kept_offline_count == 1
    return life, root


def remains(life: Names) -> list[str]:
    """Everything of the topic, but its two partitions."""
    names = [name for root in ROOTS for name in life.bench.world.disks[root].list()]
    return sorted(name for name in names if name.startswith("t-"))


def is_made(life: Names) -> bool:
    return all(map(life.served, range(PARTITIONS)))


def make_again(life: Names) -> None:
    life.delete()
    life.bench.simulation.run_until(lambda: life.topic_id is None)
    life.create()
    life.bench.simulation.run_until(lambda: is_made(life))


def test_a_refused_partition_goes_with_its_topic_and_is_made_again() -> None:
    life, _ = damaged(1)
    make_again(life)
    for index in range(PARTITIONS):
        life.write(index, 2)
    life.settle()
    assert remains(life) == ["t-0", "t-1"]
    for _ in range(2):
        life.stop()
        life.settle()
        assert is_made(life)


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("steps", STEPS)
def test_the_node_dies_while_a_refused_topic_is_made_again(steps: int, power: bool) -> None:
    life, _ = damaged(steps)
    old_id = life.topic_id
    life.delete()
    life.create()
    life.step(steps)
    life.end(power=power)
    life.bench.settle(3_000)
    if life.topic_id == old_id:  # it died before that was decided
        return
    if life.topic_id is None:
        assert remains(life) == []
        life.create()
        life.bench.simulation.run_until(lambda: is_made(life))
    assert is_made(life)
    assert remains(life) == ["t-0", "t-1"]


def test_a_refused_topic_is_deleted_while_its_directory_is_away() -> None:
    life, root = damaged(3)
    life.stop(away=(root,))
    make_again(life)
    for index in range(PARTITIONS):
        life.write(index, 2)
    life.stop()
    life.settle()
    assert is_made(life)
    assert remains(life) == ["t-0", "t-1"]


def test_a_strangers_directory_keeps_a_partition_offline_only_as_long_as_it_is_there() -> None:
    life = Names(4)
    life.bench.settle(1_000)
    strange = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    for root in ROOTS:
        for index in range(PARTITIONS):
            life.bench.world.disks[root].put(f"t-{index}/{FIRST_SEGMENT}", b"")
            life.bench.world.disks[root].put(f"t-{index}/partition.metadata", strange)
    life.create()
    life.bench.settle(1_000)
    assert life.bench.broker.replicas.kept_offline_count == PARTITIONS
    life.stop()
    life.settle()
    assert is_made(life)
    assert len([name for name in remains(life) if name.endswith("-stray")]) == 2 * PARTITIONS


# -- what was just made


def dies_young(steps: int, *, power: bool) -> tuple[Names, str, dict[str, WorldDisk]]:
    """A topic is made, written to at once, and the node dies; with the directory of t-0."""
    life = Names(steps)
    life.bench.settle(2_000)
    life.create()
    life.bench.simulation.run_until(lambda: is_made(life))
    partition = life.served(0)
    assert partition is not None
    root = partition.directory.disk.root
    life.write(0, 2)
    life.step(steps)
    life.bench.world.kill()
    world = life.bench.world
    return life, root, world.disks_after_power_loss() if power else world.disks_after_kill()


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("steps", STEPS)
def test_what_was_just_made_is_not_made_again_on_an_empty_mount_point(
    steps: int, power: bool
) -> None:
    life, root, disks = dies_young(steps, power=power)
    away = disks[root]
    life.start({**disks, root: WorldDisk(steps, root=root)})
    life.bench.settle(1_000)
    assert life.served(0) is None
    assert life.bench.broker.replicas.kept_offline_count >= 1
    for _ in range(2):  # nor at any later start
        hidden = life.bench.stop()
        life.start({**hidden, root: WorldDisk(steps, root=root)})
        life.bench.settle(1_000)
        assert life.served(0) is None
    life.start({**life.bench.stop(), root: away})
    life.bench.settle(1_000)
    assert life.served(0) is not None
    life.write(0, 1)
    life.away = (root,)  # t-1 may have been made on what is hidden now, after a loss of power
    life.check()


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("steps", STEPS)
def test_a_death_in_the_middle_of_a_creation_keeps_nothing_offline(steps: int, power: bool) -> None:
    life = Names(steps)
    life.bench.settle(2_000)
    life.create()
    life.step(steps)
    life.end(power=power)
    life.settle()
    assert life.topic_id is None or is_made(life)
    life.bench.settle(2 * WRITE_DELAY_MS)
    assert COMING not in life.bench.world.disks["meta"].files()


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("steps", STEPS)
def test_what_was_perhaps_never_made_is_made_when_every_directory_was_looked_at(
    steps: int, root: str
) -> None:
    life = Names(steps)
    life.bench.settle(2_000)
    life.create()
    life.step(steps)
    life.end(power=False, away=(root,))
    life.bench.settle(1_000)
    life.stop(away=(root,))
    life.bench.settle(1_000)
    life.stop()
    life.settle()
    assert life.topic_id is None or is_made(life)


def test_what_was_deleted_of_one_that_is_lost_stays_so_when_it_is_restored() -> None:
    life = with_checkpoints(5)
    partition = life.served(0)
    assert partition is not None
    root = partition.directory.disk.root
    disks = life.bench.stop()
    copy = {path: data for path, data in disks[root].files().items() if path.startswith("t-0/")}
    disks[root].remove_now("t-0")
    life.start(disks)
    assert life.served(0) is None
    life.bench.settle(1_000)
    disks = life.bench.stop()
    for path, data in copy.items():
        disks[root].put(path, data)
    life.start(disks)
    partition = life.served(0)
    assert partition is not None
    assert partition.log.start_offset == 4


# -- in several directories


@pytest.mark.parametrize("kept", ROOTS)
def test_one_that_is_in_two_directories_keeps_what_was_deleted_of_either(kept: str) -> None:
    life = with_checkpoints(6)
    partition = life.served(0)
    assert partition is not None
    root = partition.directory.disk.root
    other = next(each for each in ROOTS if each != root)
    disks = life.bench.stop()
    files = {path: data for path, data in disks[root].files().items() if path.startswith("t-0/")}
    for path, data in files.items():
        disks[other].put(path, data)
    path = f"t-0/{FIRST_SEGMENT}"
    disks[other].put(path, files[path][: _start_of_last_batch(files[path])])  # an older copy
    starts = read_offsets(disks[root], START_OFFSETS).offsets
    there = read_offsets(disks[other], START_OFFSETS).offsets
    disks[other].put(START_OFFSETS, format_offsets(there | {TopicPartition("t", 0): 4}))
    assert starts[TopicPartition("t", 0)] == 4
    disks["meta"].remove_now(PLACEMENTS)
    life.start(disks)
    assert life.served(0) is None
    life.bench.settle(1_000)
    disks = life.bench.stop()
    disks[next(each for each in ROOTS if each != kept)].remove_now("t-0")
    life.start(disks)
    partition = life.served(0)
    assert partition is not None
    assert partition.directory.disk.root == kept
    assert partition.log.start_offset == 4


def _start_of_last_batch(data: bytes) -> int:
    return [position for position, _ in batch_headers(memoryview(data))][-1]


@pytest.mark.parametrize("named", [False, True])
def test_what_two_directories_hold_of_a_deleted_topic_goes_whenever_each_is_back(
    named: bool,
) -> None:
    """Be it that their disks are not mounted, or that log.dirs does not name them for a while."""
    roots = ("one", "two", "three")
    bench = Bench(SETTINGS | {"log.dirs": ",".join(roots)})
    bench.settle(2_000)
    bench.create_topic("t", 3)

    def start_without(*away: str) -> Bench:
        bench.world.kill()
        disks = bench.world.disks_after_kill()
        for root in roots:
            heal(disks[root])
            if root in away:
                take_away(disks[root])
        wanted = [root for root in roots if named or root not in away]
        return Bench(SETTINGS | {"log.dirs": ",".join(wanted)}, disks=disks)

    bench = start_without("one", "two")
    assert bench.broker.replicas.kept_offline_count == 2
    request = k20.DeleteTopicsRequest(topic_names=["t"], timeout_ms=5_000)
    bench.turn(lambda: bench.broker.metadata.submit(request, 5, lambda _answer: None))
    bench.settle(2_000)
    bench = start_without("two")
    bench.settle(2_000)
    bench = start_without()
    bench.settle(5_000)
    left = [name for root in roots for name in bench.world.disks[root].list()]
    assert [name for name in left if name.startswith("t-")] == []
