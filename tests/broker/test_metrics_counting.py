"""What is counted while a broker works: exactly what happened, in small steps."""

from simulated_node import (
    API_VERSIONS,
    FETCH,
    PRODUCE,
    Bench,
    FakePeer,
    api_versions,
    fetch,
    produce,
    produce_batch,
    replies,
)

from penstock.broker.metrics.snapshot import LoopIdle
from penstock.broker.request_metrics import OTHER_VERSION, RequestMetrics, errors_in
from penstock.wire.batch import Record, build_batch
from penstock.wire.frame import request_frame
from penstock.wire.messages.k00_produce import ProduceRequest
from penstock.wire.messages.k03_metadata import MetadataResponse, MetadataResponseTopic
from penstock.wire.messages.k08_offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)
from penstock.wire.messages.k12_heartbeat import HeartbeatResponse
from penstock.wire.structures import PartitionError
from penstock.world import ProcessStats


def timed(bench: Bench) -> int:
    return bench.broker.request_metrics.produce_times.count


def test_requests_of_one_turn_take_the_same_time() -> None:
    bench = Bench()
    bench.create_topic("t")
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(PRODUCE, produce("t", b"first")))
    bench.receive(connection, bench.frame(PRODUCE, produce("t", b"x")) * 5)
    assert len(replies(peer, [PRODUCE] * 6)) == 6
    assert timed(bench) == 6
    assert bench.broker.produce_cache.requests[11] == 6
    assert bench.broker.produce_cache.misses == 1


def test_a_request_that_waits_for_the_disk_is_timed_when_it_is_answered() -> None:
    bench = Bench({"log.durability": "fsync"})
    bench.create_topic("t")
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(PRODUCE, produce("t", b"general")))
    bench.simulation.run_until(lambda: bool(peer.sent))
    began_ms = bench.broker.request_metrics.produce_times.total_ms
    bench.receive(connection, bench.frame(PRODUCE, produce("t", b"fast")))
    assert timed(bench) == 1
    peer.sent.clear()
    before = bench.simulation.now_ms
    bench.simulation.run_until(lambda: bool(peer.sent))
    assert timed(bench) == 2
    took = bench.broker.request_metrics.produce_times.total_ms - began_ms
    assert 0 < took <= bench.simulation.now_ms - before + 1e-6


def test_a_request_that_times_out_is_timed_and_counted_as_an_error() -> None:
    bench = Bench({"log.durability": "fsync"})
    bench.create_topic("t")
    connection, peer = bench.connect()
    partition = bench.broker.replicas.by_name["t"][0]
    message = produce("t", b"x")
    bench.receive(connection, bench.frame(PRODUCE, message))
    bench.simulation.run_until(lambda: bool(peer.sent))
    partition.directory._in_round = True  # no round ever ends
    bench.receive(connection, bench.frame(PRODUCE, message))
    peer.sent.clear()
    bench.simulation.run_until(lambda: bool(peer.sent))
    assert timed(bench) == 2
    assert bench.broker.request_metrics.errors == {(PRODUCE, 7): 1}
    assert partition.failed_produces == 1


def produce_to_three() -> ProduceRequest:
    message = produce("t", b"x")
    one = message.topic_data[0].partition_data[0]
    message.topic_data[0].partition_data = [
        type(one)(index=index, records=one.records) for index in range(3)
    ]
    return message


def test_a_request_for_several_partitions_is_timed_once_when_it_is_answered() -> None:
    bench = Bench({"log.durability": "fsync"})
    bench.create_topic("t", 3)
    connection, peer = bench.connect()
    frame = bench.frame(PRODUCE, produce_to_three())
    bench.receive(connection, frame)
    bench.simulation.run_until(lambda: bool(peer.sent))
    began_ms = bench.broker.request_metrics.produce_times.total_ms
    bench.receive(connection, frame)
    assert timed(bench) == 1
    peer.sent.clear()
    before = bench.simulation.now_ms
    bench.simulation.run_until(lambda: bool(peer.sent))
    assert timed(bench) == 2
    assert bench.broker.produce_cache.misses == 1
    took = bench.broker.request_metrics.produce_times.total_ms - began_ms
    assert 0 < took <= bench.simulation.now_ms - before + 1e-6


def test_a_request_for_several_partitions_is_one_request() -> None:
    bench = Bench()
    bench.create_topic("t", 3)
    connection, _ = bench.connect()
    frame = bench.frame(PRODUCE, produce_to_three())
    bench.receive(connection, frame)
    bench.receive(connection, frame)
    assert timed(bench) == sum(bench.broker.produce_cache.requests) == 2
    partitions = bench.broker.replicas.by_name["t"]
    assert [partitions[index].produces for index in range(3)] == [2, 2, 2]
    assert [partitions[index].log.appended_records for index in range(3)] == [2, 2, 2]


def test_a_refused_batch_counts_where_it_was_refused() -> None:
    bench = Bench()
    bench.create_topic("t")
    connection, peer = bench.connect()
    partition = bench.broker.replicas.by_name["t"][0]
    bench.receive(connection, bench.frame(PRODUCE, produce("t", b"x")))
    broken = bytearray(build_batch([Record(0, 1_750_000_000_000, None, b"x")]))
    broken[-1] ^= 1
    for _ in range(2):  # the second by the fast way
        bench.receive(connection, bench.frame(PRODUCE, produce_batch("t", bytes(broken))))
    assert len(replies(peer, [PRODUCE] * 3)) == 3
    assert bench.broker.request_metrics.errors == {(PRODUCE, 2): 2}
    assert timed(bench) == 3
    assert partition.produces == partition.log.appended_records == 1
    assert partition.failed_produces == 0  # the client's doing


def test_acks_0_is_counted_like_any_other() -> None:
    bench = Bench()
    bench.create_topic("t")
    connection, peer = bench.connect()
    batch = build_batch([Record(0, 1_750_000_000_000, None, b"x")])
    for _ in range(3):
        bench.receive(connection, bench.frame(PRODUCE, produce_batch("t", batch, acks=0)))
    assert not peer.sent
    assert timed(bench) == 3


def test_a_version_from_the_future_is_counted_as_other() -> None:
    bench = Bench()
    connection, _ = bench.connect()
    for version in range(5, 100):
        frame = request_frame(API_VERSIONS, 4, 1, "c", api_versions())
        bench.receive(connection, frame[:6] + version.to_bytes(2, "big") + frame[8:])
    assert bench.broker.request_metrics.requests == {(API_VERSIONS, OTHER_VERSION): 95}


def test_a_parked_fetch_is_seen_while_it_waits() -> None:
    bench = Bench()
    bench.create_topic("t")
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(FETCH, fetch("t", [0], wait_ms=500)))
    counts = bench.broker.request_metrics
    assert counts.parked_fetches == 1
    bench.simulation.run_until(lambda: bool(peer.sent))
    assert counts.parked_fetches == 0
    assert counts.times[FETCH].count == 1
    assert counts.times[FETCH].total_ms >= 499
    bench.receive(connection, bench.frame(FETCH, fetch("t", [0], wait_ms=500)))
    connection.closed()
    assert counts.parked_fetches == 0


def test_received_bytes_are_those_of_the_frames_however_they_come() -> None:
    bench = Bench()
    bench.create_topic("t")
    before = bench.listener.received_bytes
    connection, peer = bench.connect()
    frames = bench.frame(PRODUCE, produce("t", b"x" * 3_000)) + b"".join(
        bench.frame(API_VERSIONS, api_versions()) for _ in range(30)
    )
    for start in range(0, len(frames), 7):
        bench.receive(connection, frames[start : start + 7])
    bench.settle()
    assert len(replies(peer, [PRODUCE] + [API_VERSIONS] * 30)) == 31
    assert bench.listener.received_bytes - before == len(frames)


def test_received_bytes_of_a_halted_peer_count_once() -> None:
    bench = Bench()
    bench.create_topic("t")
    peer = FakePeer(reads=False)
    connection, _ = bench.connect(peer)
    before = bench.listener.received_bytes
    waiting = bench.frame(FETCH, fetch("t", [0], wait_ms=5_000)) * 20
    bench.receive(connection, waiting)
    bench.simulation.run_for(120_000)
    assert bench.listener.received_bytes - before == len(waiting)


def test_bytes_sent_are_those_of_the_answers() -> None:
    bench = Bench()
    bench.create_topic("t")
    connection, peer = bench.connect()
    before = bench.listener.sent_bytes
    bench.receive(connection, bench.frame(PRODUCE, produce("t", b"x" * 200_000)))
    bench.receive(connection, bench.frame(FETCH, fetch("t", [0])))
    assert bench.listener.sent_bytes - before == len(peer.sent) > 200_000
    assert bench.broker.replicas.by_name["t"][0].bytes_out > 200_000


def test_errors_are_found_wherever_an_answer_has_a_place_for_them() -> None:
    def found(response: object) -> list[int]:
        codes = [code for code in errors_in(response) if code]
        metrics = RequestMetrics()
        metrics.count_errors(8, response)
        assert metrics.errors == {(8, code): codes.count(code) for code in codes}
        return codes

    assert found(HeartbeatResponse(error_code=25)) == [25]
    assert found(HeartbeatResponse()) == []
    partitions = [PartitionError(error_code=code) for code in (0, 3, 22)]
    topic = OffsetCommitResponseTopic(partitions=partitions)
    assert found(OffsetCommitResponse(topics=[topic, topic])) == [3, 22, 3, 22]
    assert found(MetadataResponse(topics=[MetadataResponseTopic(error_code=5)])) == [5]


def test_idleness_is_what_the_loop_did_not_use() -> None:
    idleness = LoopIdle()

    def measure(at_ms: float, used: float) -> float | None:
        return idleness.measure(ProcessStats(0, 0, loop_cpu_seconds=used), at_ms)

    assert measure(0.0, 1.0) is None
    assert measure(10_000.0, 3.0) == 0.8
    for second in range(11, 200):
        measure(1_000.0 * second, 3.0)
    assert measure(200_000.0, 3.0) == 1.0
    assert idleness.measure(ProcessStats(0, 0), 1.0) is None
