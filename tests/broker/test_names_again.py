"""What a directory's checkpoints say of a deleted topic is never believed of one that is made again
under its name, wherever the node dies and whichever directory is away."""

import pytest
from names_life import PARTITIONS, ROOTS, ROUNDS, SEEDS, SETTINGS, Names, one_act, with_checkpoints
from simulated_node import Bench

from depth import sample
from penstock.broker.partitions.partition_creation import RETRY_MS
from penstock.broker.storage.stale_checkpoints import BELIEVED
from penstock.log.checkpoints import START_OFFSETS, format_offsets
from penstock.model import TopicPartition
from penstock.testing.sim.world import WorldDisk
from penstock.world import DiskFull

STEPS = sample(range(0, 60, 3), every=4)


def made_again(life: Names) -> None:
    """The topic is another one than before, and has fewer records than were deleted of that."""
    if life.topic_id is not None:
        life.delete()
        life.bench.simulation.run_until(lambda: life.topic_id is None)
    life.create()
    life.bench.simulation.run_until(lambda: all(map(life.served, range(PARTITIONS))))
    for index in range(PARTITIONS):
        life.write(index, 2)
        topic_id = life.topic_id
        assert topic_id is not None
        assert sorted(life.acknowledged[topic_id, index]) == [0, 1]


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("steps", STEPS)
def test_the_node_dies_after_the_deletion_and_after_the_new_records(
    steps: int, power: bool
) -> None:
    life = with_checkpoints(steps)
    life.delete()
    life.step(steps)
    life.end(power=power)
    made_again(life)
    life.end(power=power)
    life.settle()


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("steps", STEPS)
def test_the_node_dies_while_the_topic_is_made_again(steps: int, power: bool) -> None:
    life = with_checkpoints(steps)
    life.delete()
    life.create()
    life.step(steps)
    life.end(power=power)
    made_again(life)
    life.end(power=power)
    life.settle()


@pytest.mark.parametrize("power", [False, True])
def test_the_topic_is_deleted_and_made_again_without_a_stop(power: bool) -> None:
    life = with_checkpoints(1)
    made_again(life)
    life.end(power=power)
    life.settle()


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("root", ROOTS)
def test_a_directory_is_away_while_the_topic_is_deleted(root: str, power: bool) -> None:
    life = with_checkpoints(2)
    life.stop(away=(root,))
    life.delete()
    life.bench.settle(1_000)
    life.end(power=power)
    made_again(life)
    life.end(power=power)
    life.settle()


@pytest.mark.parametrize("root", ROOTS)
def test_a_directory_is_away_while_the_topic_is_made_again(root: str) -> None:
    life = with_checkpoints(3)
    life.stop(away=(root,))
    life.delete()
    life.bench.settle(1_000)
    made_again(life)
    life.stop()
    life.settle()
    made_again(life)  # perhaps where the first one was
    life.end(power=False)
    life.settle()


@pytest.mark.parametrize("power", [False, True])
def test_a_partition_moves_to_where_another_had_its_name(power: bool) -> None:
    life = Names(4)
    life.create()
    life.bench.settle(1_000)
    life.write(0, 2)
    partition = life.served(0)
    assert partition is not None
    place = partition.directory
    target = next(each for each in life.bench.broker.replicas.directories if each is not place)
    # A deletion a moment ago, of which the file there does not know yet.
    name = TopicPartition("t", 0)
    target.disk.replace_now(START_OFFSETS, format_offsets({name: 4}))
    target.stale_checkpoints.add(name)
    life.bench.turn(lambda: life.bench.broker.moves.ask(partition, target))
    life.bench.simulation.run_until(lambda: "t-0" in target.disk.list())
    life.end(power=power)
    life.settle()
    moved = life.served(0)
    assert moved is not None
    assert moved.directory.disk.root == target.disk.root


class FullFor:
    """A disk that has no room for one file."""

    def __init__(self, disk: WorldDisk, name: str) -> None:
        self._disk = disk
        self._name = name
        self._really = disk.replace_now
        disk.replace_now = self._replace_now  # type: ignore[method-assign]

    def _replace_now(self, path: str, data: bytes) -> None:
        if path == self._name:
            raise DiskFull(f"injected: {path}")
        self._really(path, data)

    def heal(self) -> None:
        self._disk.replace_now = self._really  # type: ignore[method-assign]


@pytest.mark.parametrize("name", BELIEVED)
def test_where_the_checkpoints_cannot_be_written_nothing_gets_a_name_that_they_say(
    name: str,
) -> None:
    life = with_checkpoints(5)
    life.bench.world.kill()
    disks = life.bench.world.disks_after_kill()
    fulls = [FullFor(disks[root], name) for root in ROOTS]
    life.bench = Bench(SETTINGS, disks=disks)  # which does not keep it from starting
    life.delete()
    life.bench.simulation.run_until(lambda: life.topic_id is None)
    life.create()
    life.bench.settle(2 * RETRY_MS)
    for index in range(PARTITIONS):  # the other directory may have room for it
        made = life.served(index)
        assert made is None or TopicPartition("t", index) not in made.directory.stale_checkpoints
    for full in fulls:
        full.heal()
    life.bench.settle(2 * RETRY_MS)
    for index in range(PARTITIONS):
        life.write(index, 2)
    life.end(power=False)
    life.settle()
    assert all(map(life.served, range(PARTITIONS)))


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_to_names_nobody_gets_what_was_said_of_another(seed: int) -> None:
    life = Names(seed)
    dice = life.dice
    for _ in range(ROUNDS):
        for _ in range(dice.randrange(1, 7)):
            one_act(life, dice)
            life.step(dice.randrange(12))
        away = (dice.choice(ROOTS),) if dice.random() < 0.3 else ()
        if dice.random() < 0.3:
            life.stop(away)
        else:
            life.end(power=dice.random() < 0.4, away=away)
        life.check()
        if dice.random() < 0.5:
            life.settle()
    life.stop()
    life.settle()
