"""Long requests share a limited memory: later ones wait for earlier ones."""

from typing import Any

import pytest
from simulated_node import API_VERSIONS, FETCH, Bench, FakePeer, api_versions, fetch

from penstock.broker.network import dispatch
from penstock.broker.network.long_requests import LONG_FRAME_BYTES, LongRequests
from penstock.wire.codec import read_in_slices

ABSENT = range(LONG_FRAME_BYTES // 30)
ROOM_FOR_ONE = {
    "queued.max.request.bytes": str(4 * LONG_FRAME_BYTES),
    "socket.request.max.bytes": str(2 * LONG_FRAME_BYTES),
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


def _ask(bench: Bench) -> FakePeer:
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(FETCH, fetch("absent", ABSENT)))
    return peer


def test_a_long_request_is_read_after_the_answer_to_the_one_before(readings: list[int]) -> None:
    bench = Bench(ROOM_FOR_ONE)
    first, second = _ask(bench), _ask(bench)
    while not first.sent:
        assert len(readings) == 1
        bench.simulation.step()
    bench.simulation.run_until(lambda: bool(second.sent))


def test_by_default_long_requests_are_read_beside_each_other(readings: list[int]) -> None:
    bench = Bench()
    peers = [_ask(bench) for _ in range(3)]
    assert len(readings) == 3
    bench.simulation.run_until(lambda: all(peer.sent for peer in peers))


def test_a_short_request_passes_long_ones_that_wait() -> None:
    bench = Bench(ROOM_FOR_ONE)
    first, second = _ask(bench), _ask(bench)
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(API_VERSIONS, api_versions()))
    bench.simulation.run_until(lambda: bool(peer.sent))
    assert not first.sent and not second.sent


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


def test_a_request_beyond_the_limit_runs_alone() -> None:
    limited = LongRequests(bytes_max=1)
    with pytest.raises(StopIteration):
        next(limited.enter(1_000))
    assert next(limited.enter(1_000)) is not None
