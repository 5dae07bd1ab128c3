"""DeleteRecords: what was answered stays deleted, whatever happens next."""

import pytest
from simulated_node import PRODUCE, Bench, FakePeer, produce
from troubled_disks import fill, make_room

from penstock.errors import KafkaStorageError
from penstock.testing.sim.world import WorldDisk
from penstock.wire.codec import read
from penstock.wire.frame import parse_response_header, request_frame
from penstock.wire.messages import k21_delete_records as k21

DELETE_RECORDS, VERSION = 21, 2
SETTINGS = {"metadata.log.dir": "meta"}
CHECKPOINTS_MS = 120_000  # longer than the interval of any checkpoint


def with_records() -> Bench:
    bench = Bench(SETTINGS)
    bench.create_topic("t")
    connection, _ = bench.connect()
    for _ in range(10):
        bench.receive(connection, bench.frame(PRODUCE, produce("t", b"x")))
    connection.closed()
    return bench


def asked(bench: Bench, offset: int = 5) -> FakePeer:
    """A peer that has asked for the deletion of what is below the offset."""
    connection, peer = bench.connect()
    wanted = k21.DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = k21.DeleteRecordsTopic(name="t", partitions=[wanted])
    message = k21.DeleteRecordsRequest(topics=[topic], timeout_ms=1_000)
    bench.receive(connection, request_frame(DELETE_RECORDS, VERSION, 1, "test", message))
    return peer


def answer(peer: FakePeer) -> tuple[int, int]:
    """The error code and the low watermark."""
    frame = bytes(peer.sent[4:])
    _, position = parse_response_header(DELETE_RECORDS, VERSION, frame)
    response = read(k21.DeleteRecordsResponse, VERSION, frame, position)
    (result,) = response.topics[0].partitions
    return result.error_code, result.low_watermark


def disk_of(bench: Bench) -> WorldDisk:
    return bench.world.disks["data"]


@pytest.mark.parametrize("seed", range(1, 6))
def test_what_was_answered_outlives_a_loss_of_power(seed: int) -> None:
    bench = with_records()
    bench.simulation.chance.seed(seed)
    peer = asked(bench)
    assert not peer.sent, "it is not durable yet"
    bench.simulation.run_until(lambda: bool(peer.sent))
    assert answer(peer) == (0, 5)
    bench.world.kill()
    again = Bench(SETTINGS, disks=bench.world.disks_after_power_loss())
    assert again.broker.find("t", 0).log.start_offset == 5


def test_a_rejected_deletion_changes_nothing() -> None:
    bench = with_records()
    fill(disk_of(bench))
    peer = asked(bench)
    bench.simulation.run_until(lambda: bool(peer.sent))
    assert answer(peer) == (KafkaStorageError.code, -1)
    assert bench.broker.find("t", 0).log.start_offset == 0
    make_room(disk_of(bench))
    bench.settle(CHECKPOINTS_MS)
    bench.world.kill()
    again = Bench(SETTINGS, disks=bench.world.disks_after_kill())
    assert again.broker.find("t", 0).log.start_offset == 0


def test_a_checkpoint_in_between_keeps_a_deletion_under_way() -> None:
    bench = with_records()
    peer = asked(bench)
    bench.broker.replicas.start_offsets_moved([bench.broker.find("t", 0).directory])
    bench.simulation.run_until(lambda: bool(peer.sent))
    assert answer(peer) == (0, 5)
    bench.settle()
    bench.world.kill()
    again = Bench(SETTINGS, disks=bench.world.disks_after_kill())
    assert again.broker.find("t", 0).log.start_offset == 5


def test_two_deletions_at_once_end_at_the_later_offset() -> None:
    bench = with_records()
    peers = [asked(bench, offset) for offset in (7, 5)]
    bench.simulation.run_until(lambda: all(peer.sent for peer in peers))
    assert [answer(peer)[0] for peer in peers] == [0, 0]
    assert bench.broker.find("t", 0).log.start_offset == 7


def test_a_topic_deleted_meanwhile_does_not_keep_a_deletion_waiting() -> None:
    bench = with_records()
    peer = asked(bench)
    bench.broker.find("t", 0).gone = True
    bench.simulation.run_until(lambda: bool(peer.sent))
    assert bench.broker.find("t", 0).log.start_offset == 0


def test_on_a_full_disk_it_is_refused_and_can_be_asked_for_again() -> None:
    bench = with_records()
    fill(disk_of(bench))
    peer = asked(bench)
    bench.simulation.run_until(lambda: bool(peer.sent))
    assert answer(peer) == (KafkaStorageError.code, -1)
    make_room(disk_of(bench))
    peer = asked(bench)
    bench.simulation.run_until(lambda: bool(peer.sent))
    assert answer(peer) == (0, 5)
    bench.world.kill()
    again = Bench(SETTINGS, disks=bench.world.disks_after_kill())
    assert again.broker.find("t", 0).log.start_offset == 5
