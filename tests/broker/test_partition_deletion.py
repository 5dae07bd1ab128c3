"""Directories of deleted topics whose names do not change at once, for want of room or of files:
nobody else's are taken for them meanwhile, none of them is forgotten, and the name is free again
when the last of them has another one."""

import logging

import pytest
from finished_move import finished_at_start
from moving_life import Life
from moving_life import names as names_of
from names_life import PARTITIONS, ROOTS, ROUNDS, SEEDS, SETTINGS, Names, one_act
from simulated_node import Bench
from troubled_disks import heal, take_away

from penstock.broker.partitions.partition_creation import PartitionCreation
from penstock.broker.partitions.partition_deletion import RETRY_MS
from penstock.broker.storage.placements import PLACEMENTS, WRITE_DELAY_MS
from penstock.broker.storage.rename_deleted import rename_deleted
from penstock.log.directory import format_metadata
from penstock.testing.sim.world import WorldDisk
from penstock.wire.messages import k20_delete_topics as k20
from penstock.world import DiskFailed, DiskFull, TooManyFiles

THREE = ("one", "two", "three")
TOPIC_ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))
LIVE = ("t-0", "t-1")
SHORT_OF = [DiskFull, TooManyFiles]


def hinder(disk: WorldDisk, refusal: type[DiskFailed], *, done: bool) -> None:
    """Directories of partitions get no other name; or they do, but the sync of it fails."""
    really = disk.rename_now

    def rename_now(path: str, new: str) -> None:
        if path not in LIVE:
            really(path, new)
            return
        if done:
            really(path, new)
        raise refusal(f"injected: {path}")

    disk.rename_now = rename_now  # type: ignore[method-assign, assignment]


def remains(bench: Bench) -> list[str]:
    found = [name for root, disk in bench.world.disks.items() for name in disk.list()]
    return sorted(name for name in found if name.startswith("t-"))


def live(life: Names, root: str) -> list[str]:
    return [name for name in life.bench.world.disks[root].list() if name in LIVE]


def until_deleted(life: Names) -> None:
    life.delete()
    life.bench.simulation.run_until(lambda: life.topic_id is None)


def write_everywhere(life: Names, count: int) -> None:
    topic_id = life.topic_id
    assert topic_id is not None
    for index in range(PARTITIONS):
        before = len(life.acknowledged.get((topic_id, index), {}))
        life.write(index, count)
        assert len(life.acknowledged[topic_id, index]) == before + count


def left_of_another(seed: int, refusal: type[DiskFailed], *, done: bool) -> tuple[Names, str]:
    """A start finds t-0 of a deleted topic in a directory that was away, which is told, and cannot
    rename it. The topic was made anew, elsewhere."""
    life = Names(seed)
    life.create()
    life.bench.settle(1_000)
    write_everywhere(life, 3)
    partition = life.served(0)
    assert partition is not None
    root = partition.directory.disk.root
    life.stop(away=(root,))
    until_deleted(life)
    life.create()
    life.bench.settle(1_000)
    write_everywhere(life, 4)
    disks = life.bench.stop()
    heal(disks[root])
    hinder(disks[root], refusal, done=done)
    life.away = ()
    life.bench = Bench(SETTINGS, disks=disks, seed=life.dice.randrange(1 << 30))
    return life, root


def ask_for(life: Names, root: str) -> None:
    partition, target = life.served(0), life.bench.broker.replicas.directory_at(root)
    assert partition is not None
    assert target is not None
    life.bench.turn(lambda: life.bench.broker.moves.ask(partition, target))


def place(life: Names) -> str:
    partition = life.served(0)
    assert partition is not None
    return partition.directory.disk.root


# -- whose it is


@pytest.mark.parametrize("refusal", SHORT_OF)
@pytest.mark.parametrize("seed", range(1, 6))
def test_a_partition_that_moves_to_where_another_had_its_name_is_not_taken_for_that(
    seed: int, refusal: type[DiskFailed]
) -> None:
    life, root = left_of_another(seed, refusal, done=True)
    assert "t-0" not in live(life, root)
    heal(life.bench.world.disks[root])
    ask_for(life, root)
    life.bench.settle(RETRY_MS / 2)
    write_everywhere(life, 2)
    life.bench.settle(2 * RETRY_MS)
    assert place(life) == root
    life.settle()
    assert remains(life.bench) == ["t-0", "t-1"]
    life.end(power=False)
    life.settle()
    assert place(life) == root


@pytest.mark.parametrize("refusal", SHORT_OF)
def test_a_partition_moves_when_what_had_its_name_there_has_gone(refusal: type[DiskFailed]) -> None:
    life, root = left_of_another(1, refusal, done=False)
    ask_for(life, root)
    life.bench.settle(2 * RETRY_MS)
    assert place(life) != root
    heal(life.bench.world.disks[root])
    life.bench.settle(2 * RETRY_MS)
    assert place(life) == root
    life.settle()
    life.bench.settle(2_000)
    assert remains(life.bench) == ["t-0", "t-1"]


def test_of_several_wishes_the_last_one_counts_while_a_name_is_not_free() -> None:
    life, root = left_of_another(1, DiskFull, done=False)
    before = place(life)
    ask_for(life, root)
    ask_for(life, before)
    heal(life.bench.world.disks[root])
    life.bench.settle(3 * RETRY_MS)
    assert place(life) == before
    assert live(life, root) == []


def test_a_topic_is_deleted_while_its_partition_waits_to_move() -> None:
    life, root = left_of_another(1, DiskFull, done=False)
    ask_for(life, root)
    until_deleted(life)
    heal(life.bench.world.disks[root])
    life.bench.settle(3 * RETRY_MS)
    assert remains(life.bench) == []


def test_what_has_its_new_name_although_the_disk_said_otherwise_is_removed() -> None:
    life, _ = left_of_another(2, DiskFull, done=True)
    assert any(name.endswith("-delete") for name in remains(life.bench))
    life.bench.settle(2 * RETRY_MS)
    assert remains(life.bench) == ["t-0", "t-1"]


@pytest.mark.parametrize("refusal", SHORT_OF)
def test_an_original_that_has_its_new_name_although_the_disk_said_otherwise_is_put_away(
    refusal: type[DiskFailed], caplog: pytest.LogCaptureFixture
) -> None:
    life = Life(settings={"metadata.log.dir": "meta"})
    life.write(5)
    source, target = life.place, life.elsewhere
    hinder(life.bench.world.disks[source], refusal, done=True)
    life.ask(target)
    life.arrive(target)
    life.bench.settle(2 * RETRY_MS)
    assert not [each for each in caplog.messages if "could not be put away" in each]
    assert names_of(life)[source] == []
    heal(life.bench.world.disks[source])
    life.ask(source)
    life.arrive(source)
    life.write(2)
    assert life.values() == life.acknowledged


@pytest.mark.parametrize("refusal", SHORT_OF)
def test_an_original_that_a_start_has_renamed_although_the_disk_said_otherwise_is_put_away(
    refusal: type[DiskFailed], caplog: pytest.LogCaptureFixture
) -> None:
    life, source, target, disks = finished_at_start()
    hinder(disks[source], refusal, done=True)
    life.restart(disks)
    assert life.place == target
    life.bench.settle(2 * RETRY_MS)
    assert not [each for each in caplog.messages if "could not be put away" in each]
    assert names_of(life)[source] == []


def with_directory(topic_id: bytes | None) -> WorldDisk:
    disk = WorldDisk(1)
    content = b"" if topic_id is None else format_metadata(topic_id)
    disk.put("t-0/partition.metadata", content)
    return disk


@pytest.mark.parametrize("again", [False, True])
def test_the_directory_of_another_topic_keeps_its_name(again: bool) -> None:
    disk = with_directory(OTHER_ID)
    assert not rename_deleted(disk, "t-0", TOPIC_ID, "aside", again=again)
    assert disk.list() == ["t-0"]


@pytest.mark.parametrize("topic_id", [TOPIC_ID, None])
def test_a_directory_that_does_not_say_otherwise_gets_another_name(topic_id: bytes | None) -> None:
    disk = with_directory(topic_id)
    assert rename_deleted(disk, "t-0", TOPIC_ID, "aside", again=False)
    assert disk.list() == ["aside"]


def test_a_name_that_has_changed_is_made_durable_at_the_next_try_and_nothing_else_changes() -> None:
    disk = with_directory(TOPIC_ID)
    disk.rename_now("t-0", "aside")
    disk.put("t-0/partition.metadata", b"")  # of whoever has the name by now
    syncs: list[None] = []
    disk.sync_everything_now = lambda: syncs.append(None)  # type: ignore[method-assign]
    assert rename_deleted(disk, "t-0", TOPIC_ID, "aside", again=True)
    assert disk.list() == ["aside", "t-0"]
    assert len(syncs) == 1


def test_a_copy_that_a_move_could_not_take_back_goes_with_its_topic() -> None:
    life = Names(5)
    life.create()
    life.bench.settle(1_000)
    write_everywhere(life, 3)
    partition = life.served(0)
    assert partition is not None
    hosting = life.bench.broker.replicas
    target = next(each for each in hosting.directories if each is not partition.directory)
    for path, data in life.bench.world.disks[place(life)].files().items():
        if path.startswith("t-0/"):
            life.bench.world.disks[target.disk.root].put(path, data)
    hosting.move_sources.note((partition.topic_id, 0), "t", target.directory_id)
    until_deleted(life)
    life.bench.settle(2_000)
    assert remains(life.bench) == []
    assert not hosting.move_sources.left
    life.create()
    life.bench.settle(1_000)
    write_everywhere(life, 2)
    life.settle()


# -- until the last of them


def test_a_name_that_two_directories_have_is_free_when_both_have_let_go_of_it() -> None:
    first, second = ROOTS
    life = Names(3)
    life.create()
    life.bench.settle(1_000)
    for root in ROOTS:
        hinder(life.bench.world.disks[root], DiskFull, done=False)
    until_deleted(life)
    life.bench.settle(2 * WRITE_DELAY_MS)
    life.bench.world.kill()
    disks = life.bench.world.disks_after_kill()
    for source, target in (ROOTS, ROOTS[::-1]):  # as if moves had left something
        for path, data in disks[source].files().items():
            if path.startswith(("t-0/", "t-1/")):
                disks[target].put(path, data)
    life.bench = Bench(SETTINGS, disks=disks)
    assert live(life, first) == live(life, second) == ["t-0", "t-1"]
    life.create()
    heal(disks[second])
    life.bench.settle(2 * RETRY_MS)
    assert live(life, second) == []
    assert not any(map(life.served, range(PARTITIONS)))
    assert life.bench.broker.replicas.kept_offline_count == 0
    heal(disks[first])
    life.bench.settle(2 * RETRY_MS)
    write_everywhere(life, 2)
    life.settle()


def test_a_name_is_not_free_when_a_younger_topic_lets_go_of_it() -> None:
    life, root = left_of_another(1, DiskFull, done=False)
    assert root == ROOTS[0]  # where the next one would be made
    until_deleted(life)
    life.create()
    life.bench.settle(2 * RETRY_MS)
    assert life.served(0) is None
    assert life.bench.broker.replicas.kept_offline_count == 0
    heal(life.bench.world.disks[root])
    life.bench.settle(2 * RETRY_MS)
    write_everywhere(life, 2)
    life.settle()


def test_a_name_is_let_go_only_by_who_holds_it() -> None:
    life = Names(1)
    making: PartitionCreation = life.bench.broker.replicas._creation
    making.hold("t-0")
    making.hold("t-0")
    making.let_go("t-0")
    making.let_go("t-0")
    with pytest.raises(AssertionError):
        making.let_go("t-0")


def test_a_node_whose_disk_keeps_a_name_from_one_topic_serves_the_others() -> None:
    life = Names(4)
    life.create()
    life.bench.settle(1_000)
    for root in ROOTS:
        hinder(life.bench.world.disks[root], DiskFull, done=False)
    until_deleted(life)
    life.create()
    life.bench.simulation.run_until(lambda: life.topic_id is not None)
    life.bench.create_topic("u")  # which is answered
    life.bench.world.kill()
    disks = life.bench.world.disks_after_kill()
    for root in ROOTS:
        heal(disks[root])
        hinder(disks[root], DiskFull, done=False)
    life.bench = Bench(SETTINGS, disks=disks)  # which gets ready
    assert list(life.bench.broker.replicas.by_name) == ["u"]
    for root in ROOTS:
        heal(disks[root])
    life.bench.settle(2 * RETRY_MS)
    write_everywhere(life, 2)
    life.settle()


@pytest.mark.parametrize("refusal", SHORT_OF)
def test_others_do_not_wait_for_a_name_that_an_original_has(refusal: type[DiskFailed]) -> None:
    life = Life(settings={"metadata.log.dir": "meta"})
    life.write(5)
    source, target = life.place, life.elsewhere
    hinder(life.bench.world.disks[source], refusal, done=False)
    life.ask(target)
    life.arrive(target)
    life.quiet()
    life.delete()
    life.bench.simulation.run_until(lambda: "t" not in life.bench.broker.image.topics)
    life.bench.settle(2 * RETRY_MS)
    life.bench.create_topic("t")
    life.bench.create_topic("u")
    assert "t" not in life.bench.broker.replicas.by_name
    heal(life.bench.world.disks[source])
    life.bench.settle(2 * RETRY_MS)
    life.acknowledged.clear()
    life.write(2)
    assert life.values() == life.acknowledged


# -- all of them


class Three:
    """A partition that two of three directories hold, so that it is offline; nodes come and go."""

    def __init__(self) -> None:
        self.settings = SETTINGS | {"log.dirs": ",".join(THREE)}
        self.nodes = 0
        self.bench = self.next_node()
        self.bench.settle(2_000)
        self.bench.create_topic("t")
        self.bench.settle(1_000)
        disks = self.bench.stop()
        self.first = next(root for root in THREE if "t-0" in disks[root].list())
        self.second = next(root for root in THREE if root != self.first)
        for path, data in disks[self.first].files().items():
            if path.startswith("t-0/"):
                disks[self.second].put(path, data)
        disks["meta"].remove_now(PLACEMENTS)
        self.bench = self.next_node(disks)
        assert self.bench.broker.replicas.kept_offline_count == 1

    def next_node(self, disks: dict[str, WorldDisk] | None = None) -> Bench:
        self.nodes += 1
        return Bench(self.settings, disks=disks, seed=self.nodes)

    def delete(self) -> None:
        bench = self.bench
        request = k20.DeleteTopicsRequest(topic_names=["t"], timeout_ms=5_000)
        bench.turn(lambda: bench.broker.metadata.submit(request, 5, lambda _answer: None))
        bench.simulation.run_until(lambda: "t" not in bench.broker.image.topics)

    def die(self, *away: str) -> None:
        """The next node finds these directories away."""
        self.bench.world.kill()
        disks = self.bench.world.disks_after_kill()
        for root in THREE:
            heal(disks[root])
            if root in away:
                take_away(disks[root])
        self.bench = self.next_node(disks)


@pytest.mark.parametrize("wait_ms", [0, 2 * WRITE_DELAY_MS, 2 * RETRY_MS])
@pytest.mark.parametrize("swapped", [False, True])
def test_what_is_away_is_not_forgotten_while_another_directory_waits(
    swapped: bool, wait_ms: float
) -> None:
    life = Three()
    full, away = (life.first, life.second) if not swapped else (life.second, life.first)
    hinder(life.bench.world.disks[full], DiskFull, done=False)
    directory = life.bench.broker.replicas.directory_at(away)
    assert directory is not None
    directory.take_offline(DiskFailed("injected"))
    life.delete()
    life.bench.settle(wait_ms)
    life.die(away)
    life.bench.settle(5_000)
    life.die(away)
    life.bench.settle(5_000)
    life.die()
    life.bench.settle(5_000)
    assert remains(life.bench) == []


@pytest.mark.parametrize("wait_ms", [0, 2 * WRITE_DELAY_MS, 2 * RETRY_MS])
def test_the_second_of_two_goes_although_it_was_away_when_the_topic_was_deleted(
    wait_ms: float,
) -> None:
    life = Three()
    life.die(life.second)
    hinder(life.bench.world.disks[life.first], DiskFull, done=False)
    life.delete()
    life.bench.settle(wait_ms)
    life.die(life.second)
    life.bench.settle(5_000)
    life.die()
    life.bench.settle(5_000)
    assert remains(life.bench) == []


def test_what_is_where_a_refused_partition_was_used_last_goes_when_that_is_named_again() -> None:
    life = Three()
    disks = life.bench.stop()
    disks[life.second].remove_now("t-0")
    life.bench = life.next_node(disks)  # which uses the first
    life.bench.settle(2 * WRITE_DELAY_MS)
    disks = life.bench.stop()
    others = [root for root in THREE if root != life.first]
    for root in others:
        for path, data in disks[life.first].files().items():
            if path.startswith("t-0/"):
                disks[root].put(path, data)
    life.settings |= {"log.dirs": ",".join(others)}
    life.bench = life.next_node(disks)
    assert life.bench.broker.replicas.kept_offline_count == 1
    life.delete()
    life.bench.settle(5_000)
    assert remains(life.bench) == ["t-0"]
    life.settings |= {"log.dirs": ",".join(THREE)}
    life.die()
    life.bench.settle(5_000)
    assert remains(life.bench) == []


def test_the_refused_go_once_although_the_disk_said_otherwise() -> None:
    life = Three()
    for root in THREE:
        hinder(life.bench.world.disks[root], DiskFull, done=True)
    life.delete()
    life.bench.settle(3 * RETRY_MS)
    assert remains(life.bench) == []
    assert not life.bench.broker.replicas.move_sources.left


# -- seeds


def hinder_some(life: Names) -> None:
    """Each directory changes names now, or does not, or does and says otherwise."""
    for root in ROOTS:
        disk = life.bench.world.disks[root]
        if root in life.away:
            continue
        heal(disk)
        if life.dice.random() < 0.4:
            hinder(disk, life.dice.choice(SHORT_OF), done=life.dice.random() < 0.5)


def start_again(life: Names) -> None:
    """After a stop or a death, perhaps without one of the directories; names may not change."""
    dice, world = life.dice, life.bench.world
    if dice.random() < 0.3:
        disks = life.bench.stop()
    else:
        world.kill()
        is_cut = dice.random() < 0.4
        disks = world.disks_after_power_loss() if is_cut else world.disks_after_kill()
    life.away = (dice.choice(ROOTS),) if dice.random() < 0.3 else ()
    for root in ROOTS:
        heal(disks[root])
        if root in life.away:
            take_away(disks[root])
        elif dice.random() < 0.4:
            hinder(disks[root], dice.choice(SHORT_OF), done=dice.random() < 0.5)
    life.bench = Bench(SETTINGS, disks=disks, seed=dice.randrange(1 << 30))


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_to_names_that_do_not_change_at_once_nothing_is_lost_seed(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    life = Names(seed)
    dice = life.dice
    for _ in range(ROUNDS):
        for _ in range(dice.randrange(1, 7)):
            one_act(life, dice)
            life.step(dice.randrange(12))
            if dice.random() < 0.3:
                hinder_some(life)
        start_again(life)
        life.check()
        if dice.random() < 0.5:
            life.bench.settle(dice.choice((500, 3_000)))
            life.check()
        if dice.random() < 0.3:
            hinder_some(life)
    life.stop()
    life.settle()
    life.bench.settle(2 * RETRY_MS)
    life.settle()
    assert not life.bench.broker.replicas._creation._names
