"""What a node tells of itself after a start: how it stopped, what is committed, and the leaders."""

from dataclasses import replace

import pytest
from leadership import lead
from simulated_node import FETCH, PRODUCE, Bench, fetch, produce, replies

from own_thread import patch_own_thread
from penstock.controller.image import RECOVERED, RECOVERING
from penstock.errors import FencedLeaderEpoch, NotLeaderOrFollower
from penstock.replication.leader import PartitionLeader
from penstock.testing.sim.world import WorldDisk

APART = {"metadata.log.dir": "meta", "log.dirs": "one,two"}


def recovery_state(bench: Bench) -> int:
    """RECOVERING when the stop before was a crash: the leader may have lost its last records."""
    return bench.broker.image.topics["t"].partitions[0].recovery_state


def stopped(settings: dict[str, str]) -> dict[str, WorldDisk]:
    bench = Bench(settings)
    bench.create_topic("t")
    connection, _ = bench.connect()
    for _ in range(3):
        bench.receive(connection, bench.frame(PRODUCE, produce("t", b"x")))
    connection.closed()
    bench.settle(1_000)
    return bench.stop()


@pytest.mark.parametrize("settings", [APART, {"log.dirs": "one,two"}, {}])
def test_a_clean_stop_is_no_crash(settings: dict[str, str]) -> None:
    again = Bench(settings, disks=Bench(settings, disks=stopped(settings)).stop())
    assert recovery_state(again) == RECOVERED


def test_a_stop_that_one_directory_knows_nothing_of_is_a_crash() -> None:
    disks = stopped(APART)
    disks["two"].remove_now(".kafka_cleanshutdown")
    assert recovery_state(Bench(APART, disks=disks)) == RECOVERING


@pytest.mark.parametrize(("checkpoint", "known"), [(2, 2), (9, 3), (0, 0)])
def test_until_this_node_leads_the_checkpoint_says_what_is_committed(
    checkpoint: int, known: int
) -> None:
    bench = Bench(disks=stopped({}))
    partition = bench.broker.find("t", 0)
    topic = bench.broker.image.topics["t"]
    nobody = replace(topic, partitions={0: replace(topic.partitions[0], leader=-1)})
    made = bench.broker.replicas.make_partition(
        nobody, 0, partition.directory, partition.log, high_watermark=checkpoint
    )
    assert made.leader.high_watermark == known
    lead(made, 1, (1,))
    assert made.leader.high_watermark == 3


def test_a_start_reads_the_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[PartitionLeader] = []
    disks = stopped({})

    def advance(leader: PartitionLeader, _counted_end: int, _now_ms: float) -> bool:
        told.append(leader)
        return False

    patch_own_thread(monkeypatch, PartitionLeader, "advance", advance)
    Bench(disks=disks)
    assert [each.high_watermark for each in told] == [3]


def test_a_fetch_with_an_old_epoch_hears_of_the_leader_in_the_image() -> None:
    bench = Bench()
    bench.create_topic("t")
    partition = bench.broker.find("t", 0)
    partition.leader.epoch = 7  # this node learned of it before the image did
    message = fetch("t", [0])
    message.topics[0].partitions[0].current_leader_epoch = 5
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(FETCH, message))
    (answer,) = replies(peer, [FETCH])
    (told,) = answer.responses[0].partitions
    assert told.error_code == FencedLeaderEpoch.code
    wanted = bench.broker.image.leader_of("t", 0)
    assert (told.current_leader.leader_id, told.current_leader.leader_epoch) == wanted


def test_a_fetch_of_what_another_node_leads_hears_of_that() -> None:
    bench = Bench()
    bench.create_topic("t")
    bench.broker.find("t", 0).leading = False
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(FETCH, fetch("t", [0])))
    (answer,) = replies(peer, [FETCH])
    (told,) = answer.responses[0].partitions
    wanted = bench.broker.image.leader_of("t", 0)
    assert (told.current_leader.leader_id, told.current_leader.leader_epoch) == wanted


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_remembered_producer_hears_of_the_next_leader(partitions: int) -> None:
    bench = Bench()
    bench.create_topic("t", partitions)
    connection, peer = bench.connect()
    message = produce("t", b"x")
    for each in range(1, partitions):
        message.topic_data[0].partition_data += (
            produce("t", b"x", each).topic_data[0].partition_data
        )
    for _ in range(2):
        bench.receive(connection, bench.frame(PRODUCE, message))
    assert bench.broker.produce_cache.misses == 1
    bench.broker.find("t", 0).leading = False
    bench.receive(connection, bench.frame(PRODUCE, message))
    answer = replies(peer, [PRODUCE] * 3)[-1]
    first, *others = answer.responses[0].partition_responses
    assert (first.error_code, [each.error_code for each in others]) == (
        NotLeaderOrFollower.code,
        [0] * (partitions - 1),
    )
    wanted = bench.broker.image.leader_of("t", 0)
    assert (first.current_leader.leader_id, first.current_leader.leader_epoch) == wanted
    assert [each.node_id for each in answer.node_endpoints] == [bench.broker.node_id]


@pytest.mark.parametrize("number", [0, 1])
def test_a_partition_whose_record_names_no_directory_opens(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = number.to_bytes(16)
    monkeypatch.setattr("penstock.controller.elections.UNASSIGNED_DIRECTORY", written)
    bench = Bench(APART, disks=stopped(APART))
    assert bench.broker.image.topics["t"].partitions[0].directories == (written,)
    assert bench.broker.find("t", 0).log.end_offset == 3
