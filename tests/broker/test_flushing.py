"""flush.messages and flush.ms: when a partition is synced, who waits for that, and who does not."""

import pytest
from simulated_node import PRODUCE, Bench, FakePeer, produce, produce_batch, replies

from penstock.broker.network.connection import BrokerConnection
from penstock.broker.partitions.partition import Partition
from penstock.testing.sim.disk import SimDisk
from penstock.wire.batch import Record, build_batch
from penstock.wire.messages import k44_incremental_alter_configs as k44
from penstock.world import TooManyFiles

NOW_MS = 1_750_000_000_000
TOPIC_TYPE, SET = 2, 0
LATER_MS = 600_000


def with_topic(
    settings: dict[str, str] | None = None, **configs: str
) -> tuple[Bench, Partition, BrokerConnection, FakePeer]:
    bench = Bench({"log.flush.offset.checkpoint.interval.ms": "1000000", **(settings or {})})
    bench.create_topic("t", 3, {name.replace("_", "."): value for name, value in configs.items()})
    bench.settle()
    return bench, bench.broker.find("t", 0), *bench.connect()


def synced(bench: Bench) -> int:
    return bench.broker.find("t", 0).log.synced_offset


def send(
    bench: Bench,
    connection: BrokerConnection,
    *,
    acks: int = -1,
    count: int = 1,
    partition: int = 0,
) -> None:
    batch = build_batch([Record(place, NOW_MS, None, b"x") for place in range(count)])
    message = produce_batch("t", batch, partition, acks=acks)
    bench.receive(connection, bench.frame(PRODUCE, message))


def alter(bench: Bench, name: str, value: str) -> None:
    entry = k44.AlterableConfig(name=name, config_operation=SET, value=value)
    resource = k44.AlterConfigsResource(
        resource_type=TOPIC_TYPE, resource_name="t", configs=[entry]
    )
    heard: list[object] = []
    message = k44.IncrementalAlterConfigsRequest(resources=[resource])
    bench.broker.metadata.submit(message, 1, heard.append)
    bench.simulation.run_until(lambda: bool(heard))


def test_without_a_setting_nothing_is_synced() -> None:
    bench, _, connection, peer = with_topic()
    send(bench, connection)
    assert len(replies(peer, [PRODUCE])) == 1
    bench.settle(LATER_MS)
    assert synced(bench) == 0


@pytest.mark.parametrize("acks", [-1, 1])
def test_the_append_that_makes_a_flush_due_waits_for_it(acks: int) -> None:
    bench, partition, connection, peer = with_topic(flush_messages="3")
    for _ in range(2):
        send(bench, connection, acks=acks)
    assert len(replies(peer, [PRODUCE] * 2)) == 2, "these are not due"
    assert partition.leader.high_watermark == 2
    send(bench, connection, acks=acks)
    assert not peer.sent
    assert partition.leader.high_watermark == 2, "nobody sees what is not synced"
    bench.settle()
    assert len(replies(peer, [PRODUCE])) == 1
    assert synced(bench) == partition.leader.high_watermark == 3


def test_records_are_counted_not_batches() -> None:
    bench, _, connection, peer = with_topic(flush_messages="10")
    send(bench, connection, count=9)
    assert len(replies(peer, [PRODUCE])) == 1
    send(bench, connection, count=5)
    assert not peer.sent
    bench.settle()
    assert synced(bench) == 14
    send(bench, connection, count=9)
    assert len(replies(peer, [PRODUCE] * 2)) == 2, "the count begins anew"


def test_the_setting_of_the_broker_holds_for_topics_without_one() -> None:
    bench, _, connection, _ = with_topic({"log.flush.interval.messages": "2"})
    send(bench, connection, count=2)
    bench.settle()
    assert synced(bench) == 2


def test_a_partition_is_synced_when_its_time_is_over() -> None:
    bench, _, connection, peer = with_topic(flush_ms="5000")
    send(bench, connection)
    assert len(replies(peer, [PRODUCE])) == 1, "nobody waits for that"
    bench.settle(4_900)
    send(bench, connection)  # does not put it off
    assert synced(bench) == 0
    bench.settle(200)
    assert synced(bench) == 2
    assert len(bench.broker.flushing) == 0


def test_an_idle_partition_costs_nothing() -> None:
    bench, _, connection, _ = with_topic(flush_ms="1000")
    bench.settle(100)
    assert len(bench.broker.flushing) == 0
    for _ in range(5):
        send(bench, connection, partition=1)
    assert len(bench.broker.flushing) == 1
    bench.settle(2_000)
    assert len(bench.broker.flushing) == 0


def test_the_scheduler_looks_at_its_own_pace() -> None:
    settings = {"log.flush.scheduler.interval.ms": "10000"}
    bench, _, connection, _ = with_topic(settings, flush_ms="1000")
    bench.settle(10_000 - bench.simulation.now_ms % 10_000)
    send(bench, connection)
    bench.settle(5_000)
    assert synced(bench) == 0
    bench.settle(6_000)
    assert synced(bench) == 1


def test_the_scheduler_gives_the_age_where_none_is_set() -> None:
    bench, _, connection, _ = with_topic({"log.flush.scheduler.interval.ms": "2000"})
    send(bench, connection)
    bench.settle(4_100)
    assert synced(bench) == 1


def test_a_setting_changed_in_use_holds_for_what_was_written_before() -> None:
    bench, partition, connection, _ = with_topic()
    send(bench, connection, count=3)
    alter(bench, "flush.ms", "100")
    bench.settle(300)
    assert synced(bench) == 3
    send(bench, connection)
    alter(bench, "flush.ms", str(2**63 - 1))
    bench.settle(LATER_MS)
    assert synced(bench) == 3, "not any more"
    alter(bench, "flush.messages", "1")
    bench.settle()
    assert synced(bench) == partition.leader.high_watermark == 4


def test_a_flush_that_fails_takes_the_directory_offline_and_tells_those_who_wait() -> None:
    bench, partition, connection, peer = with_topic(flush_messages="1")
    disk = bench.world.disks["data"]
    assert isinstance(disk, SimDisk)
    disk.fail_sync(0)
    send(bench, connection, acks=1)
    bench.settle()
    [answer] = replies(peer, [PRODUCE])
    assert answer.responses[0].partition_responses[0].error_code == 56
    assert partition.directory.failed


def test_what_was_flushed_survives_the_loss_of_power() -> None:
    bench, _, connection, peer = with_topic(flush_messages="1")
    for _ in range(20):
        send(bench, connection, acks=1)
    bench.settle()
    assert len(replies(peer, [PRODUCE] * 20)) == 20
    bench.world.kill()
    again = Bench(disks=bench.world.disks_after_power_loss())
    assert again.broker.find("t", 0).log.end_offset == 20


def test_recovery_points_move_with_the_flushes_and_a_clean_stop_scans_nothing() -> None:
    bench, _, connection, _ = with_topic(
        {"replica.high.watermark.checkpoint.interval.ms": "500"}, flush_messages="1"
    )
    send(bench, connection, count=4)
    bench.settle(1_000)
    points = bench.world.disks["data"].files()["recovery-point-offset-checkpoint"].decode()
    assert "t 0 4" in points.splitlines()
    bench.receive(connection, bench.frame(PRODUCE, produce("t", b"y")))
    connection.closed()
    again = Bench(disks=bench.stop())
    for index in range(3):
        recovery = again.broker.find("t", index).log.recovery
        assert (recovery.scanned_bytes, recovery.segments_rebuilt) == (0, 0)
    assert again.broker.find("t", 0).log.end_offset == 5


def test_under_fsync_there_is_nothing_to_flush() -> None:
    bench, partition, connection, peer = with_topic(
        {"log.durability": "fsync"}, flush_messages="1", flush_ms="10"
    )
    send(bench, connection, acks=1)
    assert len(replies(peer, [PRODUCE])) == 1, "acks=1 does not wait there"
    bench.settle()
    assert synced(bench) == partition.leader.high_watermark == 1
    assert len(bench.broker.flushing) == 0


def test_a_round_that_lacks_descriptors_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, partition, connection, peer = with_topic({"log.durability": "fsync"})
    disk = bench.broker.replicas.directories[0].disk
    assert isinstance(disk, SimDisk)
    attempts: list[str] = []

    def before_sync(path: str) -> None:
        if path.endswith(".log"):
            attempts.append(path)
            if len(attempts) == 1:
                raise TooManyFiles("injected")

    monkeypatch.setattr(disk, "before_sync", before_sync)
    send(bench, connection)
    bench.settle(1_000)
    assert len(replies(peer, [PRODUCE])) == 1
    assert len(attempts) == 2, "nothing is called synced that was not"
    assert partition.log.synced_offset == 1
