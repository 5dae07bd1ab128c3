"""min.insync.replicas: what it asks for, and that it asks for no more replicas than there are."""

from leadership import lead
from simulated_node import FETCH, PRODUCE, Bench, fetch, produce, replies

from penstock.replication.follower_progress import FetchContact
from penstock.replication.leader import PartitionLeader

NOT_ENOUGH_REPLICAS = 19


def leader(isr: tuple[int, ...], *, min_insync: int, replicas: int) -> PartitionLeader:
    made = PartitionLeader(1, epoch=0, isr=isr, high_watermark=0)
    made.require(min_insync, replicas)
    return made


def test_too_few_in_sync_replicas_commit_nothing() -> None:
    lonely = leader((1,), min_insync=2, replicas=3)
    assert lonely.below_min_insync
    assert not lonely.advance(10)
    assert lonely.high_watermark == 0


def test_enough_in_sync_replicas_commit() -> None:
    followed = leader((1, 2), min_insync=2, replicas=3)
    assert not followed.below_min_insync
    assert followed.advance(10)


def test_no_more_replicas_are_asked_for_than_the_partition_has() -> None:
    whole = leader((1, 2), min_insync=5, replicas=2)
    assert not whole.below_min_insync
    assert whole.advance(10)


def test_on_a_single_node_acks_all_is_answered_whatever_the_setting_says() -> None:
    bench = Bench({"min.insync.replicas": "2"})
    bench.create_topic("t")
    client, heard = bench.connect()
    bench.receive(client, bench.frame(PRODUCE, produce("t", b"hello")))
    bench.settle()
    (answer,) = replies(heard, [PRODUCE])
    assert answer.responses[0].partition_responses[0].error_code == 0


def test_what_acks_1_acknowledged_can_be_read_whatever_the_setting_says() -> None:
    bench = Bench({"min.insync.replicas": "3"})
    bench.create_topic("t")
    client, heard = bench.connect()
    message = produce("t", b"hello")
    message.acks = 1
    bench.receive(client, bench.frame(PRODUCE, message))
    bench.receive(client, bench.frame(FETCH, fetch("t", [0])))
    bench.settle()
    answer = replies(heard, [PRODUCE, FETCH])[1]
    assert b"hello" in answer.responses[0].partitions[0].records


def test_it_holds_after_a_restart() -> None:
    bench = Bench({"min.insync.replicas": "2"})
    bench.create_topic("t")
    client, _ = bench.connect()
    bench.receive(client, bench.frame(PRODUCE, produce("t", b"hello")))
    bench.settle()
    bench = Bench({"min.insync.replicas": "2"}, disks=bench.stop())
    assert bench.broker.find("t", 0).leader.high_watermark == 1


def test_a_change_of_the_setting_holds_for_what_comes_next() -> None:
    bench = Bench()
    bench.create_topic("t")
    partition = bench.broker.find("t", 0)
    lead(partition, partition.leader.epoch, (1,), replicas=(1, 2))
    settings = partition.settings
    settings.min_insync = 2
    partition.configure(settings)
    client, heard = bench.connect()
    bench.receive(client, bench.frame(PRODUCE, produce("t", b"hello")))
    bench.settle()
    (answer,) = replies(heard, [PRODUCE])
    assert answer.responses[0].partition_responses[0].error_code == NOT_ENOUGH_REPLICAS


def test_an_in_sync_set_that_grows_releases_what_waited() -> None:
    bench = Bench({"min.insync.replicas": "2"})
    bench.create_topic("t")
    partition = bench.broker.find("t", 0)
    lead(partition, partition.leader.epoch, (1,), replicas=(1, 2))
    client, _ = bench.connect()
    message = produce("t", b"hello")
    message.acks = 1
    bench.receive(client, bench.frame(PRODUCE, message))
    assert partition.leader.high_watermark == 0
    partition.leader.fetched(2, -1, 1, 0, 0.0, FetchContact(0.0))
    lead(partition, partition.leader.epoch, (1, 2))
    assert partition.leader.high_watermark == 1


def test_the_count_of_replicas_comes_with_each_change_of_the_image() -> None:
    bench = Bench({"min.insync.replicas": "2"})
    bench.create_topic("t")
    partition = bench.broker.find("t", 0)
    lead(partition, partition.leader.epoch, (1,), replicas=(1, 2))
    assert partition.leader.below_min_insync
    lead(partition, partition.leader.epoch, (1,), replicas=(1,))
    assert not partition.leader.below_min_insync
