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

from penstock.broker import sliced_work
from penstock.broker.handlers import HANDLERS
from penstock.wire.apis import APIS, request_class
from penstock.wire.frame import request_frame

ITEMS = 2_000
CALLS_PER_TURN_MAX = 15_000  # some two milliseconds
TURNS_MAX = 5_000


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


def _lists() -> Iterator[tuple[int, tuple[str, ...]]]:
    for key in HANDLERS:
        for path in paths(request_class(key), APIS[key].versions[1]):
            yield key, path


@pytest.mark.parametrize(
    ("key", "path"),
    [pytest.param(*each, id=f"{APIS[each[0]].name}-{'.'.join(each[1])}") for each in _lists()],
)
def test_a_long_list_takes_no_turn_for_itself(
    bench: Bench, key: int, path: tuple[str, ...]
) -> None:
    version = APIS[key].versions[1]
    CountedTurns(bench).ask(large(key, version, path, 1))  # its code is loaded now
    counted = CountedTurns(bench)
    assert counted.ask(large(key, version, path, ITEMS))
    assert counted.most <= CALLS_PER_TURN_MAX
