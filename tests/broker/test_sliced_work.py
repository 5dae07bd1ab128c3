"""Work in slices: what runs at once, what waits, and in which order."""

from collections.abc import Callable

import pytest

from penstock.broker import sliced_work
from penstock.broker.sliced_work import SlicedWork, Work
from penstock.testing.sim.world import SimWorld


class Scene:
    """A node's sliced work in a simulated world, and what ran of it by turn."""

    def __init__(self) -> None:
        self.world = SimWorld(5)
        self.sliced = SlicedWork(self.world.clock, self.world.timers)
        self.ran: list[str] = []

    def work(self, name: str, slices: int) -> Work:
        for _ in range(slices):
            self.ran.append(name)
            yield None

    def turn(self) -> list[str]:
        """End the turn under way; what ran since the last one."""
        self.world.end_turn()
        ran, self.ran = self.ran, []
        return ran

    def run(self) -> None:
        while self.world.simulation.step():
            pass


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(sliced_work, "TURN_SLICES_MAX", 8)
    return Scene()


def test_short_work_is_done_at_once(scene: Scene) -> None:
    scene.sliced.begin(scene.work("a", 3))
    assert scene.turn() == ["a"] * 3


def test_a_turn_has_a_budget(scene: Scene) -> None:
    for name in "abcde":
        scene.sliced.begin(scene.work(name, 100))
    scene.turn()
    scene.world.simulation.step()
    assert len(scene.ran) <= 8 + 4


def test_new_work_begins_at_once_whatever_else_waits(scene: Scene) -> None:
    for name in "abcde":
        scene.sliced.begin(scene.work(name, 1_000))
    scene.turn()
    scene.sliced.begin(scene.work("new", 1))
    assert "new" in scene.turn()


def test_young_work_goes_before_old_work(scene: Scene) -> None:
    scene.sliced.begin(scene.work("old", 1_000))
    for _ in range(20):
        scene.world.simulation.step()
    scene.turn()
    scene.sliced.begin(scene.work("young", 12))
    scene.ran.clear()
    for _ in range(4):
        scene.world.simulation.step()
    assert scene.ran.count("young") >= 8


def test_old_work_goes_on_however_much_young_work_comes(scene: Scene) -> None:
    scene.sliced.begin(scene.work("old", 200))
    for _ in range(20):
        scene.world.simulation.step()
    before = scene.ran.count("old")
    for _ in range(50):
        scene.sliced.begin(scene.work("young", 30))
        scene.world.simulation.step()
    assert scene.ran.count("old") > before


def test_work_that_waits_goes_on_when_it_is_called(scene: Scene) -> None:
    waiting: list[Callable[[], None]] = []

    def work() -> Work:
        yield waiting.append
        scene.ran.append("went on")

    scene.sliced.begin(work())
    scene.run()
    assert not scene.ran
    waiting.pop()()
    scene.run()
    assert scene.ran == ["went on"]
