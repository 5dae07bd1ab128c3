"""Files that are removed, cut or extended from outside under a running node, or before a start:
their log takes no more records, and what was durable is never replaced by nothing."""

import random
from collections.abc import Callable
from typing import TypeAlias

import pytest
from moving_life import read_values
from simulated_node import FETCH, PRODUCE, Bench, fetch, produce, replies

from penstock.broker.storage.placements import WRITE_DELAY_MS
from penstock.errors import KafkaStorageError
from penstock.log.directory import ACCEPT_LOSS, KEPT_SEGMENT, LOG, METADATA_FILE, kept_segment
from penstock.testing.sim.world import WorldDisk
from penstock.wire.frame import request_frame
from penstock.wire.messages import k20_delete_topics as k20

FSYNC, PAGE_CACHE = {"log.durability": "fsync"}, {"log.durability": "page-cache"}
DELETE_TOPICS = 20
SMALL = {"internal.segment.bytes": "600"}
CHECKPOINT_MS, EVERYTHING_MS = 6_000, 61_000
DELETE_MS = 62_000  # file.delete.delay.ms, and a moment
STORAGE_ERROR = KafkaStorageError.code
Damage: TypeAlias = Callable[[WorldDisk, str], object]


def cut(disk: WorldDisk, path: str) -> None:
    disk.cut(path, disk.size(path) // 2)


def cut_to_nothing(disk: WorldDisk, path: str) -> None:
    disk.cut(path, 0)


def extend(disk: WorldDisk, path: str) -> None:
    disk.extend(path, b"foreign" * 70)


def replace(disk: WorldDisk, path: str) -> None:
    disk.put(path, disk.take(path))


def rename(disk: WorldDisk, path: str) -> None:
    disk.rename_now(path, f"{path}.kept")


DAMAGES = [cut, cut_to_nothing, WorldDisk.take, rename]
named = pytest.mark.parametrize("damage", DAMAGES, ids=lambda each: each.__name__)
while_running = pytest.mark.parametrize(
    "damage", [*DAMAGES, extend], ids=lambda each: each.__name__
)


class Life:
    """A node with the topics t and other."""

    def __init__(self, settings: dict[str, str], configs: dict[str, str] | None = None) -> None:
        self.settings = settings
        self.bench = Bench(settings)
        self.bench.create_topic("t", configs=configs)
        self.bench.create_topic("other")
        self.sent = 0

    @property
    def disk(self) -> WorldDisk:
        return self.bench.world.disks["data"]

    def segments(self) -> list[str]:
        return [f"t-0/{each}" for each in self.disk.list("t-0") if each.endswith(LOG)]

    def write(self, topic: str = "t", *, acks: int = -1) -> int:
        """The error code that one more record gets."""
        connection, peer = self.bench.connect()
        self.sent += 1
        message = produce(topic, b"%d" % self.sent)
        message.acks = acks
        self.bench.receive(connection, self.bench.frame(PRODUCE, message))
        self.bench.simulation.run_until(lambda: bool(peer.sent))
        (answer,) = replies(peer, [PRODUCE])
        connection.closed()
        code: int = answer.responses[0].partition_responses[0].error_code
        return code

    def fill(self, count: int = 10) -> None:
        for _ in range(count):
            assert self.write() == 0

    def read(self) -> int:
        """The error code of a fetch from the start of the log."""
        connection, peer = self.bench.connect()
        self.bench.receive(connection, self.bench.frame(FETCH, fetch("t", [0])))
        self.bench.simulation.run_until(lambda: bool(peer.sent))
        (answer,) = replies(peer, [FETCH])
        connection.closed()
        code: int = answer.responses[0].partitions[0].error_code
        return code

    def start_again(self, disks: dict[str, WorldDisk]) -> None:
        self.bench = Bench(self.settings, disks=disks)

    def die(self, *, emptied: bool = False) -> None:
        """`emptied` removes all files of t-0 before the next start."""
        self.bench.world.kill()
        disks = self.bench.world.disks_after_kill()
        for name in disks["data"].list("t-0") if emptied else ():
            disks["data"].take(f"t-0/{name}")
        self.start_again(disks)

    @property
    def is_offline(self) -> bool:
        topic_id = self.bench.broker.image.topics["t"].topic_id
        return self.bench.broker.replicas.is_offline(topic_id, 0)


@while_running
def test_under_fsync_nothing_more_is_acknowledged(
    damage: Damage, caplog: pytest.LogCaptureFixture
) -> None:
    life = Life(FSYNC)
    life.fill()
    damage(life.disk, life.segments()[0])
    codes = [life.write() for _ in range(3)]
    assert codes == [STORAGE_ERROR] * 3
    assert life.read() == STORAGE_ERROR
    assert life.write("other") == 0
    assert caplog.text.count("t-0 is offline and takes no more records") == 1


@pytest.mark.parametrize("damage", [*DAMAGES, extend, replace], ids=lambda each: each.__name__)
def test_a_checkpoint_notices_without_a_reader(damage: Damage) -> None:
    life = Life(PAGE_CACHE)
    life.fill()
    damage(life.disk, life.segments()[0])
    life.write()
    life.bench.settle(CHECKPOINT_MS)
    assert life.is_offline
    assert life.write() == STORAGE_ERROR
    assert life.write("other") == 0


@while_running
def test_a_log_that_is_not_written_to_is_looked_at_too(damage: Damage) -> None:
    life = Life(PAGE_CACHE)
    life.fill()
    life.bench.settle(CHECKPOINT_MS)
    damage(life.disk, life.segments()[0])
    life.bench.settle(EVERYTHING_MS)
    assert life.is_offline


@while_running
def test_a_closed_segment_counts_as_well(damage: Damage) -> None:
    life = Life(PAGE_CACHE, SMALL)
    life.fill(20)
    life.bench.settle(CHECKPOINT_MS)
    damage(life.disk, life.segments()[1])
    life.bench.settle(EVERYTHING_MS)
    assert life.is_offline
    assert life.write() == STORAGE_ERROR


@pytest.mark.parametrize("damage", [cut, extend], ids=lambda each: each.__name__)
def test_without_a_sync_the_next_append_notices(damage: Damage) -> None:
    life = Life(PAGE_CACHE)
    life.fill()
    damage(life.disk, life.segments()[0])
    assert life.write() == STORAGE_ERROR
    life.die()  # the damage was on record before the answer
    assert life.is_offline


@pytest.mark.parametrize("settings", [FSYNC, PAGE_CACHE], ids=["fsync", "page-cache"])
def test_a_log_is_whole_again_when_the_foreign_bytes_are_cut_off(settings: dict[str, str]) -> None:
    life = Life(settings)
    life.fill()
    partition = life.bench.broker.find("t", 0)
    acknowledged, size = list(read_values(partition)), partition.log.size
    (segment,) = life.segments()
    extend(life.disk, segment)
    assert life.write() == STORAGE_ERROR
    life.die()
    assert life.is_offline
    disks = life.bench.stop()
    disks["data"].put(segment, disks["data"].files()[segment][:size])
    life.start_again(disks)
    assert list(read_values(life.bench.broker.find("t", 0))) == acknowledged
    assert life.write() == 0


def test_bytes_appended_to_an_idle_log_are_found_at_the_start_after_a_clean_stop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    life = Life(PAGE_CACHE)
    life.fill()
    size = life.bench.broker.find("t", 0).log.size
    extend(life.disk, life.segments()[0])
    life.start_again(life.bench.stop())
    assert life.is_offline
    assert f"or cut it to {size} bytes" in caplog.text


def test_a_roll_notices() -> None:
    life = Life(PAGE_CACHE, SMALL)
    life.fill(20)
    life.disk.take(life.segments()[-1])
    for _ in range(20):
        life.write()
    life.bench.settle()
    assert life.is_offline


def test_after_a_reader_has_met_it_nothing_more_is_acknowledged() -> None:
    life = Life(PAGE_CACHE, SMALL)
    life.fill(20)
    life.bench.settle(CHECKPOINT_MS)
    life.start_again(life.bench.stop())
    life.disk.take(life.segments()[0])
    assert life.read() == STORAGE_ERROR
    life.bench.settle()
    assert life.write() == STORAGE_ERROR


def test_what_waits_for_an_answer_is_told() -> None:
    life = Life(FSYNC)
    life.fill()
    connection, peer = life.bench.connect()
    life.bench.receive(connection, life.bench.frame(PRODUCE, produce("t", b"x")))
    assert not peer.sent
    life.disk.take(life.segments()[0])
    life.bench.simulation.run_until(lambda: bool(peer.sent))
    (answer,) = replies(peer, [PRODUCE])
    assert answer.responses[0].partition_responses[0].error_code == STORAGE_ERROR


# -- starts


@named
@pytest.mark.parametrize("wait_ms", [0, CHECKPOINT_MS])
def test_a_start_never_replaces_what_was_durable_by_nothing(damage: Damage, wait_ms: int) -> None:
    life = Life(FSYNC)
    life.fill()
    life.bench.settle(CHECKPOINT_MS)
    damage(life.disk, life.segments()[0])
    life.bench.settle(wait_ms)
    life.die()
    assert life.is_offline
    assert life.write() == STORAGE_ERROR
    assert life.write("other") == 0


@pytest.mark.parametrize("settings", [FSYNC, PAGE_CACHE], ids=["fsync", "page-cache"])
def test_a_log_that_was_just_made_and_lost_its_only_segment_is_not_made_again(
    settings: dict[str, str],
) -> None:
    life = Life(settings)
    assert life.write() == 0
    life.disk.take(life.segments()[0])
    life.die()
    assert life.is_offline


def test_the_first_sync_is_on_record_before_the_first_checkpoint() -> None:
    life = Life(FSYNC)
    life.fill()
    life.bench.settle(WRITE_DELAY_MS + 10)
    cut_to_nothing(life.disk, life.segments()[0])
    life.die()
    assert life.is_offline


def test_the_newest_segment_of_several_counts_too() -> None:
    life = Life(FSYNC, SMALL)
    life.fill(20)
    life.bench.settle(CHECKPOINT_MS)
    life.disk.take(life.segments()[-1])
    life.die()
    assert life.is_offline


@while_running
def test_a_clean_stop_does_not_heal_it(damage: Damage) -> None:
    life = Life(PAGE_CACHE)
    life.fill()
    damage(life.disk, life.segments()[0])
    life.write()
    life.bench.settle(CHECKPOINT_MS)
    disks = life.bench.stop()
    assert life.bench.node.failure is None
    life.start_again(disks)
    assert life.is_offline
    assert life.write("other") == 0
    assert life.bench.broker.find("other", 0).log.recovery.scanned_bytes == 0


def test_what_is_left_is_used_when_that_is_asked_for() -> None:
    life = Life(FSYNC, SMALL)
    life.fill(20)
    life.bench.settle(CHECKPOINT_MS)
    life.disk.take(life.segments()[-1])
    life.die()
    life.disk.put(f"t-0/{ACCEPT_LOSS}", b"")
    life.start_again(life.bench.stop())
    assert not life.is_offline
    assert life.write() == 0


class TestEmptied:
    """A directory that lost everything, even its names."""

    @pytest.fixture(params=[FSYNC, PAGE_CACHE], ids=["fsync", "page-cache"])
    def life(self, request: pytest.FixtureRequest) -> Life:
        """After a kill, a removal of all files of t-0 and a start."""
        life = Life(request.param)
        life.fill()
        life.bench.settle(CHECKPOINT_MS)
        if request.param is PAGE_CACHE:  # records without a sync have no recovery point
            life.start_again(life.bench.stop())
        life.die(emptied=True)
        return life

    def accept(self, life: Life) -> None:
        life.disk.put(f"t-0/{ACCEPT_LOSS}", b"")
        life.die()

    def test_it_stays_offline(self, life: Life, caplog: pytest.LogCaptureFixture) -> None:
        assert life.is_offline
        assert life.write() == STORAGE_ERROR
        caplog.clear()
        life.die()
        assert life.is_offline
        assert f"make an empty file data/t-0/{ACCEPT_LOSS}" in caplog.text

    def test_its_records_are_given_up_on_request(
        self, life: Life, caplog: pytest.LogCaptureFixture
    ) -> None:
        self.accept(life)
        assert life.write() == 0
        assert life.bench.broker.find("t", 0).log.end_offset == 1
        assert caplog.text.count("t-0 goes on with what is left of its records") == 1

    @pytest.mark.parametrize("end", ["kill", "power"])
    def test_they_stay_given_up(self, life: Life, end: str) -> None:
        self.accept(life)
        assert life.write() == 0
        assert ACCEPT_LOSS not in life.disk.list("t-0")
        life.bench.world.kill()
        world = life.bench.world
        life.start_again(
            world.disks_after_kill() if end == "kill" else world.disks_after_power_loss()
        )
        assert not life.is_offline

    def test_a_topic_made_again_under_its_name_is_not_held_up(self, life: Life) -> None:
        connection, _ = life.bench.connect()
        request = k20.DeleteTopicsRequest(topic_names=["t"], timeout_ms=5_000)
        life.bench.receive(connection, request_frame(DELETE_TOPICS, 5, 1, "", request))
        life.bench.settle(2_000)
        life.bench.create_topic("t")
        life.die(emptied=True)
        assert life.write() == 0


def test_an_emptied_directory_of_a_log_without_records_is_a_new_log() -> None:
    life = Life(FSYNC)
    life.bench.settle(CHECKPOINT_MS)
    life.die(emptied=True)
    assert life.write() == 0


def test_a_deleted_topic_takes_its_damage_along() -> None:
    life = Life(FSYNC)
    life.fill()
    life.disk.take(life.segments()[0])
    life.write()
    assert life.is_offline
    life.bench.broker.replicas._forget_topic("t", life.bench.broker.image.topics["t"].topic_id)
    life.bench.settle(2_000)
    assert "t-0" not in life.disk.list()


def test_segments_behind_a_hole_are_kept_until_the_topic_is_deleted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    life = Life(PAGE_CACHE, SMALL)
    life.fill(40)
    life.bench.world.kill()
    disks = life.bench.world.disks_after_kill()
    disk = disks["data"]
    segments = [each for each in disk.list("t-0") if each.endswith(LOG)]
    for name in disk.list("t-0"):  # killed before a segment was closed durably
        if not name.endswith((LOG, METADATA_FILE)) or name == segments[1]:
            disk.take(f"t-0/{name}")
    life.start_again(disks)
    hole = int(segments[1].removesuffix(LOG))
    assert life.bench.broker.find("t", 0).log.end_offset == hole
    later = [int(each.removesuffix(LOG)) for each in segments[2:]]
    kept = [kept_segment(base, 0) for base in later]
    said = f"{len(kept)} later segments are outside of the log and were kept as data/t-0/{kept[0]}"
    assert f"t-0 now ends at offset {hole}: " in caplog.text
    assert f"{said} to data/t-0/{kept[-1]}." in caplog.text
    caplog.clear()
    life.start_again(life.bench.stop())
    assert set(kept) < set(life.disk.list("t-0"))
    assert "kept as" not in caplog.text
    life.bench.broker.replicas._forget_topic("t", life.bench.broker.image.topics["t"].topic_id)
    life.bench.settle(DELETE_MS)
    assert not [name for name in life.disk.files() if KEPT_SEGMENT in name]


# -- seeds


@pytest.mark.parametrize("seed", range(1, 21))
def test_all_that_was_acknowledged_is_there_or_the_log_is_offline_seed(seed: int) -> None:
    dice = random.Random(seed)
    life = Life(FSYNC, SMALL if dice.random() < 0.7 else None)
    acknowledged: list[bytes] = []
    damaged = False
    for _ in range(8):
        for _ in range(dice.randrange(1, 12)):
            if life.write() == 0:
                assert not damaged
                acknowledged.append(b"%d" % life.sent)
        if not damaged and dice.random() < 0.3:
            life.bench.settle(CHECKPOINT_MS)  # so that a start can know
            segments, place = life.segments(), dice.randrange(-2, 0)
            dice.choice(DAMAGES)(life.disk, segments[max(place, -len(segments))])
            damaged = True
            if place < -1:
                life.bench.settle(EVERYTHING_MS)  # that of a closed one is found while it runs
        life.bench.settle(dice.choice((0, 100, CHECKPOINT_MS)))
        match dice.randrange(4):
            case 0:
                life.start_again(life.bench.stop())
            case 1:
                life.die()
            case 2:
                life.bench.world.kill()
                life.start_again(life.bench.world.disks_after_power_loss())
        if not damaged:
            found = set(read_values(life.bench.broker.find("t", 0)))
            assert [each for each in acknowledged if each not in found] == []
    life.bench.settle(EVERYTHING_MS)
    assert life.is_offline == damaged
