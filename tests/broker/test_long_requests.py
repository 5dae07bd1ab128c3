"""Requests read in slices share a limited memory, in thirds by their length; the smallest enter
first."""

from typing import Any

import pytest
from simulated_node import API_VERSIONS, FETCH, PRODUCE, Bench, FakePeer, api_versions, fetch

from penstock.broker import request as client_request
from penstock.broker.background.background_tasks import MEMORY_MS
from penstock.broker.message_release import free_in_slices
from penstock.broker.network import connection as connection_module
from penstock.broker.network import dispatch
from penstock.broker.network.connection import BrokerConnection
from penstock.broker.network.listener import REAP_INTERVAL_MS_MAX, UNREAD_MS_MAX
from penstock.broker.network.long_requests import (
    LONG_FRAME_BYTES,
    MEMORY_PER_FRAME_BYTE,
    VERY_LONG_FRAME_BYTES,
    LongRequests,
)
from penstock.broker.request_pieces import JoinedAnswer
from penstock.wire.codec import read_in_slices
from penstock.wire.frame import request_frame
from penstock.wire.messages import k00_produce as k00
from penstock.wire.messages import k02_list_offsets as k02

UNIT_BYTES = LONG_FRAME_BYTES + 1
ABSENT = range(LONG_FRAME_BYTES // 30)
FEW_ABSENT = range(LONG_FRAME_BYTES // 100)
ROOM_FOR_ONE = {
    "queued.max.request.bytes": str(4 * LONG_FRAME_BYTES),
    "socket.request.max.bytes": str(2 * LONG_FRAME_BYTES),
}
VERY_MANY_ABSENT = range(VERY_LONG_FRAME_BYTES // 30)
ROOM_FOR_ONE_VERY_LONG = {
    "queued.max.request.bytes": str(4 * VERY_LONG_FRAME_BYTES),
    "socket.request.max.bytes": str(2 * VERY_LONG_FRAME_BYTES),
}


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the length of each frame that is read in slices, when its reading begins."""
    begun: list[int] = []

    def read(cls: type, version: int, frame: bytes, position: int) -> Any:
        begun.append(len(frame))
        return read_in_slices(cls, version, frame, position)

    monkeypatch.setattr(dispatch, "read_in_slices", read)
    return begun


def _ask(bench: Bench, partitions: range = ABSENT) -> FakePeer:
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(FETCH, fetch("absent", partitions)))
    return peer


def test_a_long_request_is_read_after_the_answer_to_the_one_before(readings: list[int]) -> None:
    bench = Bench(ROOM_FOR_ONE)
    first, second = _ask(bench), _ask(bench)
    while not first.sent:
        assert len(readings) == 1
        bench.simulation.step()
    bench.simulation.run_until(lambda: bool(second.sent))


@pytest.fixture
def _short_answers_count_as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "UNSENT_BYTES_MAX", 1_000)


def _ask_without_reading(bench: Bench) -> tuple[BrokerConnection, FakePeer]:
    """Have a long request answered, to a peer that reads nothing of the answer."""
    connection, peer = bench.connect(FakePeer(reads=False))
    bench.receive(connection, bench.frame(FETCH, fetch("absent", ABSENT)))
    bench.simulation.run_until(lambda: bool(peer.sent))
    return connection, peer


@pytest.mark.usefixtures("_short_answers_count_as_large")
def test_a_large_answer_keeps_its_memory_until_it_is_read(readings: list[int]) -> None:
    bench = Bench(ROOM_FOR_ONE)
    connection, first = _ask_without_reading(bench)
    second = _ask(bench)
    bench.settle(1_000)
    assert len(readings) == 1
    first.unsent_bytes = 0
    connection.sent()
    bench.simulation.run_until(lambda: bool(second.sent))


@pytest.mark.usefixtures("_short_answers_count_as_large")
def test_a_peer_that_reads_nothing_is_closed_while_others_wait() -> None:
    bench = Bench(ROOM_FOR_ONE)
    connection, first = _ask_without_reading(bench)
    second = _ask(bench)
    bench.settle(UNREAD_MS_MAX + 3 * REAP_INTERVAL_MS_MAX)
    assert first.closed
    connection.closed()
    bench.simulation.run_until(lambda: bool(second.sent))


@pytest.mark.usefixtures("_short_answers_count_as_large")
def test_a_peer_that_reads_slowly_stays_while_others_wait() -> None:
    bench = Bench(ROOM_FOR_ONE)
    _, first = _ask_without_reading(bench)
    _ask(bench)
    for _ in range(10):
        first.unsent_bytes -= 100
        bench.settle(UNREAD_MS_MAX / 2)
    assert not first.closed


@pytest.mark.usefixtures("_short_answers_count_as_large")
def test_an_unread_answer_stays_while_there_is_memory() -> None:
    bench = Bench(ROOM_FOR_ONE)
    _, first = _ask_without_reading(bench)
    bench.settle(3 * UNREAD_MS_MAX)
    assert not first.closed


def test_by_default_long_requests_are_read_beside_each_other(readings: list[int]) -> None:
    bench = Bench()
    peers = [_ask(bench) for _ in range(3)]
    assert len(readings) == 3
    bench.simulation.run_until(lambda: all(peer.sent for peer in peers))


def test_requests_of_a_few_slices_share_a_memory_of_their_own(readings: list[int]) -> None:
    bench = Bench(ROOM_FOR_ONE)
    for _ in range(2):
        _ask(bench)
    first, second = _ask(bench, FEW_ABSENT), _ask(bench, FEW_ABSENT)
    assert len(readings) == 2 and readings[1] < LONG_FRAME_BYTES < readings[0]
    bench.simulation.run_until(lambda: bool(first.sent) and bool(second.sent))


def test_memory_goes_back_to_the_system_after_long_requests() -> None:
    bench = Bench()
    peer = _ask(bench, range(2 * VERY_LONG_FRAME_BYTES // 30))
    bench.simulation.run_until(lambda: bool(peer.sent))
    bench.settle(2 * MEMORY_MS)
    assert bench.world.memory_releases == 1


def test_a_short_request_passes_long_ones_that_wait() -> None:
    bench = Bench(ROOM_FOR_ONE)
    first, second = _ask(bench), _ask(bench)
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(API_VERSIONS, api_versions()))
    bench.simulation.run_until(lambda: bool(peer.sent))
    assert not first.sent and not second.sent


def _produce_to_absent(bench: Bench) -> tuple[BrokerConnection, FakePeer]:
    connection, peer = bench.connect()
    data = [k00.PartitionProduceData(index=each) for each in range(LONG_FRAME_BYTES // 8)]
    topic = k00.TopicProduceData(name="absent", partition_data=data)
    bench.receive(connection, bench.frame(PRODUCE, k00.ProduceRequest(acks=-1, topic_data=[topic])))
    return connection, peer


def test_produce_requests_for_many_partitions_share_the_memory_too() -> None:
    bench = Bench(ROOM_FOR_ONE)
    peers = [_produce_to_absent(bench)[1] for _ in range(3)]
    counted = bench.broker.long_requests.estimated_bytes
    while not all(peer.sent for peer in peers):
        assert bench.broker.long_requests.estimated_bytes == counted > 0
        bench.simulation.step()
    bench.settle()
    assert bench.broker.long_requests.estimated_bytes == 0


@pytest.mark.parametrize("leaving", [0, 1], ids=["in progress", "waiting"])
def test_a_producer_that_goes_leaves_its_memory_to_the_next(leaving: int) -> None:
    bench = Bench(ROOM_FOR_ONE)
    connections = [_produce_to_absent(bench) for _ in range(3)]
    gone, _peer = connections.pop(leaving)
    gone.close()
    gone.closed()
    bench.simulation.run_until(lambda: all(peer.sent for _, peer in connections))
    bench.settle()
    assert bench.broker.long_requests.estimated_bytes == 0


@pytest.mark.parametrize("leaving", [0, 1], ids=["in progress", "waiting"])
def test_a_peer_that_goes_leaves_its_memory_to_the_next(leaving: int) -> None:
    bench = Bench(ROOM_FOR_ONE)
    connections = [bench.connect() for _ in range(3)]
    for connection, _peer in connections:
        bench.receive(connection, bench.frame(FETCH, fetch("absent", ABSENT)))
    gone, _peer = connections.pop(leaving)
    gone.close()
    gone.closed()
    bench.simulation.run_until(lambda: all(peer.sent for _, peer in connections))
    bench.settle()
    assert bench.broker.long_requests.estimated_bytes == 0


def test_a_request_of_a_peer_that_ended_while_it_waited_is_not_read(readings: list[int]) -> None:
    bench = Bench(ROOM_FOR_ONE)
    first, gone, last = _ask(bench), _ask(bench), _ask(bench)
    gone.ended = True
    bench.simulation.run_until(lambda: bool(first.sent) and bool(last.sent))
    assert len(readings) == 2
    assert gone.closed and not gone.sent


def test_an_ordinary_long_request_passes_very_long_ones_that_wait(readings: list[int]) -> None:
    bench = Bench(ROOM_FOR_ONE_VERY_LONG)
    for _ in range(3):
        _ask(bench, VERY_MANY_ABSENT)
    assert len(readings) == 1
    _ask(bench)
    assert len(readings) == 2 and readings[1] < VERY_LONG_FRAME_BYTES < readings[0]


class Entering:
    """Requests that enter one after the other, by the units of their frames."""

    def __init__(self, units_max: int) -> None:
        unit = MEMORY_PER_FRAME_BYTE * UNIT_BYTES
        self.requests = LongRequests(bytes_max=3 * units_max * unit)
        self.entered: list[int] = []

    def enter(self, *units: int) -> None:
        for each in units:
            entering = self.requests.enter(each * UNIT_BYTES)
            try:
                wait = next(entering)
            except StopIteration:
                self.entered.append(each)
            else:
                assert wait is not None, "a request waits for memory"
                wait(lambda each=each: self.entered.append(each))  # type: ignore[misc]

    def leave(self, units: int) -> None:
        self.requests.leave(units * UNIT_BYTES)


def test_waiting_requests_enter_smallest_first() -> None:
    entering = Entering(4)
    entering.enter(4, 3, 2, 1, 2)
    assert entering.entered == [4]
    entering.leave(4)
    assert entering.entered == [4, 1, 2]
    entering.leave(1)
    entering.leave(2)
    entering.leave(2)
    assert entering.entered == [4, 1, 2, 2, 3]


def test_a_small_request_enters_where_those_before_it_do_not_fit() -> None:
    entering = Entering(4)
    entering.enter(3, 3, 1)
    assert entering.entered == [3, 1]


def test_each_fourth_time_the_oldest_request_enters() -> None:
    entering = Entering(1)
    entering.enter(1, 4)
    for _ in range(4):
        entering.enter(1)
        entering.leave(1)
    assert entering.entered == [1, 1, 1, 1, 4]


def test_very_long_requests_and_ordinary_ones_have_a_third_of_the_limit_each() -> None:
    entering = Entering(40)
    entering.enter(20, 20, 20, 15, 15, 10, 1)
    assert entering.entered == [20, 20, 15, 15, 10]
    entering.leave(20)
    assert entering.entered[-1] == 20
    entering.leave(10)
    assert entering.entered[-1] == 1
    assert entering.requests.estimated_bytes <= 80 * MEMORY_PER_FRAME_BYTE * UNIT_BYTES


@pytest.mark.parametrize(
    "frame_bytes", [LONG_FRAME_BYTES, 2 * LONG_FRAME_BYTES, 2 * VERY_LONG_FRAME_BYTES]
)
def test_a_request_beyond_its_share_runs_alone(frame_bytes: int) -> None:
    limited = LongRequests(bytes_max=1)
    with pytest.raises(StopIteration):
        next(limited.enter(frame_bytes))
    assert next(limited.enter(frame_bytes)) is not None


def test_the_messages_of_a_peer_that_goes_are_freed_in_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    freed: list[tuple[str, int]] = []

    def free(messages: list[Any]) -> Any:
        freed.extend((type(each).__name__, len(each.topics[0].partitions)) for each in messages)
        return free_in_slices(messages)

    joined: list[Any] = []

    def join(answer: JoinedAnswer, response: Any) -> None:
        joined.append(response)
        add(answer, response)

    add = JoinedAnswer.add
    monkeypatch.setattr(JoinedAnswer, "add", join)
    monkeypatch.setattr(client_request, "free_in_slices", free)
    bench = Bench()
    partitions = [k02.ListOffsetsPartition(partition_index=each) for each in range(20_000)]
    topic = k02.ListOffsetsTopic(name="absent", partitions=partitions)
    connection, peer = bench.connect()
    frame = request_frame(2, 6, 1, "test", k02.ListOffsetsRequest(topics=[topic]))
    bench.receive(connection, frame)
    bench.simulation.run_until(lambda: len(joined) > 1)
    connection.close()
    connection.closed()
    bench.settle()
    assert not peer.sent
    assert [name for name, _ in freed] == ["ListOffsetsResponse", "ListOffsetsRequest"]
    assert freed[1] == ("ListOffsetsRequest", 20_000)
