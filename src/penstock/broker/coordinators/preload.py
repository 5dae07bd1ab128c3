"""The code of the coordinators, loaded before the first request for one.

The import takes 120 ms of a processor and more. On the loop it would hold up every client once.
"""

from importlib import import_module

from penstock.world import World

# Clients that waited for the start come first.
PRELOAD_DELAY_MS = 250
COORDINATORS_MODULE = "penstock.broker.coordinators.coordinators"


def preload_coordinators(world: World) -> None:
    """Import the coordinators soon, on a worker thread. If that fails, the first request for a
    coordinator raises the same error."""

    def load() -> None:
        world.workers.compute(import_module, (COORDINATORS_MODULE,), lambda _module, _failure: None)

    world.timers.at(world.clock.mono_ms() + PRELOAD_DELAY_MS, load)
