"""No request holds up the loop: the largest requests of every API, by the work they do in a turn.

Work is counted in calls, of Python and of C: the same on every machine.
"""

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest
from large_requests import TOPIC, Large, large, paths
from simulated_node import Bench

import depth
from penstock.broker import sliced_work
from penstock.broker.handlers import HANDLERS
from penstock.controller.delta import Delta
from penstock.coordinator.events import TopicsChanged
from penstock.wire.apis import APIS, request_class
from penstock.wire.frame import request_frame

ITEMS = 12_000 if depth.WHOLE else 6_000
CALLS_PER_TURN_MAX = 45_000  # some five milliseconds; few calls per element would be too many
TURNS_MAX = 20_000


class CountedTurns:
    """Counts the calls in each turn of a node's loop."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._calls = 0
        self.most = 0

    def _note(self, _frame: FrameType, event: str, _argument: Any) -> None:
        if event in ("call", "c_call"):
            self._calls += 1

    def _turn_ended(self) -> None:
        type(self._bench.world).end_turn(self._bench.world)
        self.most = max(self.most, self._calls)
        self._calls = 0

    def ask(self, request: Large) -> bool:
        """Send a request; return whether it was answered."""
        connection, peer = self._bench.connect()
        frame = request_frame(request.api_key, request.version, 1, "test", request.message)
        before = sys.getprofile()
        self._bench.world.end_turn = self._turn_ended  # type: ignore[method-assign]
        sys.setprofile(self._note)
        try:
            self._bench.receive(connection, frame)
            for _ in range(TURNS_MAX):
                if peer.sent or peer.closed or not self._bench.simulation.step():
                    break
        finally:
            sys.setprofile(before)
            del self._bench.world.end_turn
        connection.close()
        connection.closed()
        return bool(peer.sent)


@pytest.fixture(scope="module")
def bench() -> Bench:
    made = Bench({"auto.create.topics.enable": "false"})
    made.create_topic(TOPIC, 1_000)
    return made


@pytest.fixture(autouse=True)
def _one_slice_per_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliced_work, "TURN_SLICES_MAX", 1)
    monkeypatch.setattr(sliced_work, "SLICES_IN_A_ROW_MAX", 1)


def _lists() -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Yield every list of every API, in the newest version that has it."""
    for key in HANDLERS:
        known: set[tuple[str, ...]] = set()
        low, high = APIS[key].versions
        for version in range(high, low - 1, -1):
            for path in paths(request_class(key), version):
                if path not in known:
                    known.add(path)
                    yield key, version, path


LISTS = [
    pytest.param(key, version, path, id=f"{APIS[key].name}-v{version}-{'.'.join(path)}")
    for key, version, path in _lists()
]


@pytest.mark.each_value
@pytest.mark.parametrize("equal", [False, True], ids=["different", "equal"])
@pytest.mark.parametrize(("key", "version", "path"), LISTS)
def test_a_long_list_takes_no_turn_for_itself(
    bench: Bench, key: int, version: int, path: tuple[str, ...], equal: bool
) -> None:
    CountedTurns(bench).ask(large(key, version, path, 1))  # its code is loaded now
    counted = CountedTurns(bench)
    assert counted.ask(large(key, version, path, ITEMS, equal=equal))
    assert counted.most <= CALLS_PER_TURN_MAX


def test_groups_hear_of_topics_made_in_one_turn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Bench({})
    made.create_topic("__consumer_offsets", 5)
    coordinators = made.broker.coordinators
    heard: list[TopicsChanged] = []

    def submit(event: Any) -> None:
        heard.append(event)

    for runtime in coordinators.groups.values():
        monkeypatch.setattr(runtime, "submit", submit)
    for number in range(100):
        coordinators.follow(Delta(created_topics=(f"new-{number}",)))
    made.settle()
    assert [len(event.names) for event in heard] == [100] * len(coordinators.groups)
