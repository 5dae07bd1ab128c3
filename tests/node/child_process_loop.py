"""A loop that runs functions of child_process_work in processes of their own."""

from pathlib import Path
from typing import Any

from penstock.real.child_process import RealChildProcesses, RealChildTask
from penstock.real.loop import Loop
from penstock.real.workers import ThreadWorkers

WAIT_MS_MAX = 20_000


class Room:
    """A loop with children."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.loop = Loop()
        self.workers = ThreadWorkers(self.loop, threads=2)
        self.apart = RealChildProcesses(self.loop, self.workers)

    def begin(self, function: str, *arguments: Any) -> tuple[RealChildTask, list[Any], list[Any]]:
        heard: list[Any] = []
        ended: list[Any] = []
        errand = self.apart.run(
            f"child_process_work:{function}",
            str(self.root),
            arguments,
            heard.append,
            lambda *each: ended.append(each),
        )
        return errand, heard, ended

    def turn_until(self, there: list[Any]) -> Any:
        late = [False]
        timer = self.loop.at(self.loop.mono_ms() + WAIT_MS_MAX, lambda: late.append(True))
        while not there and not late[-1]:
            self.loop.turn()
        timer.cancel()
        assert there, "it did not happen in time"
        return there[-1]

    def result(self, function: str, *arguments: Any) -> tuple[Any, Any]:
        _, _, ended = self.begin(function, *arguments)
        found: tuple[Any, Any] = self.turn_until(ended)
        return found

    def close(self) -> None:
        self.apart.close()
        self.workers.close()
        self.loop.close()
