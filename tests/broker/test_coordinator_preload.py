"""The code of the coordinators is loaded before the first request for one, off the loop."""

from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from penstock.broker.coordinators.preload import (
    COORDINATORS_MODULE,
    PRELOAD_DELAY_MS,
    preload_coordinators,
)


class RecordingWorld:
    """Keeps the timers and the work for threads."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.computed: list[tuple[Any, ...]] = []
        self.clock = SimpleNamespace(mono_ms=lambda: 1_000.0)
        self.timers = SimpleNamespace(at=lambda at_ms, call: self.due.append((at_ms, call)))
        self.workers = SimpleNamespace(compute=lambda *work: self.computed.append(work[:2]))


def preloading() -> RecordingWorld:
    world: Any = RecordingWorld()
    preload_coordinators(world)
    kept: RecordingWorld = world
    return kept


def test_a_node_that_is_ready_loads_nothing_at_once() -> None:
    world = preloading()
    assert [at_ms for at_ms, _ in world.due] == [1_000 + PRELOAD_DELAY_MS]
    assert world.computed == []


def test_the_coordinators_are_imported_on_a_worker() -> None:
    world = preloading()
    for _, call in world.due:
        call()
    assert world.computed == [(import_module, (COORDINATORS_MODULE,))]


def test_the_preloaded_module_has_the_coordinators() -> None:
    assert hasattr(import_module(COORDINATORS_MODULE), "Coordinators")
