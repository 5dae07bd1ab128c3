"""Workers that wait until the test lets them work, in the order the test likes."""

from collections.abc import Callable
from typing import Any

from simulated_node import Bench


class HeldWorkers:
    """Stands in for the workers of a bench (world.Workers) from its making on."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.tasks: list[Callable[[], None]] = []
        bench.world.workers = self  # type: ignore[assignment]

    def run(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], done: Callable[..., None]
    ) -> None:
        self.tasks.append(lambda: done(function(*arguments), None))

    compute = run

    def use(self, threads: int | None) -> None:
        pass

    def work(self, place: int = 0) -> None:
        """Do one of the waiting tasks, in a turn of its own."""
        self._bench.turn(self.tasks.pop(place))
