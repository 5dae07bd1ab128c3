"""How far a query is with its batch, seen from outside: in the files of Spark and of the node.

Kills are aimed with this. A batch begins when Spark has noted its offsets, and is over when Spark
has noted that it is committed; in between the target's logs grow, then the log of decisions.
"""

import os
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from penstock.spark.sink.decisions import TOPIC, partition_of

LOOK_SECONDS = 0.003


class Phase(StrEnum):
    """Of the batch that is under way, or none is."""

    BETWEEN = "between batches"
    BEGUN = "before its rows"
    WRITING = "while rows are written"
    DECIDED = "decided"


class Sight(NamedTuple):
    begun: int
    committed: int
    target_bytes: int
    decision_bytes: int


class Watch:
    """Look often: what is between two looks is not seen."""

    def __init__(
        self, directories: Sequence[Path], checkpoint: Path, target: str, sink_id: str
    ) -> None:
        """Look at the files of all nodes: a batch is written in all replicas."""
        partitions = max(_partitions(data, target) for data in directories)
        self._target = [
            data / f"{target}-{each}" for data in directories for each in range(partitions)
        ]
        self._decisions = [data / f"{TOPIC}-{partition_of(sink_id)}" for data in directories]
        self._checkpoint = checkpoint
        self._now = self._began = self._see()
        self.phase = Phase.BETWEEN
        self.changes = 0

    @property
    def batches(self) -> int:
        """That Spark knows as committed."""
        return self._now.committed + 1

    def look(self) -> Phase:
        now = self._see()
        if now.begun != self._now.begun:
            self._began = now
        self._now = now
        phase = self._phase()
        if phase is not self.phase:
            self.phase = phase
            self.changes += 1
        return phase

    def _phase(self) -> Phase:
        if self._now.committed >= self._now.begun:
            return Phase.BETWEEN
        if self._now.target_bytes <= self._began.target_bytes:
            return Phase.BEGUN
        # Planning may store something too, but it does so before the rows.
        if self.phase in (Phase.BETWEEN, Phase.BEGUN):
            self._began = self._began._replace(decision_bytes=self._now.decision_bytes)
        grown = self._now.decision_bytes > self._began.decision_bytes
        return Phase.DECIDED if grown else Phase.WRITING

    def wait_for(self, phase: Phase, seconds_max: float, over: Callable[[], bool]) -> bool:
        """Until it begins anew. Not, if that takes too long or there is nothing to wait for."""
        until, before = time.monotonic() + seconds_max, self.changes
        while time.monotonic() < until and not over():
            if self.look() is phase and self.changes > before:
                return True
            time.sleep(LOOK_SECONDS)
        return False

    def pass_time(self, seconds: float) -> Phase:
        """Chance decides how long: there is no event to wait for."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.look()
            time.sleep(LOOK_SECONDS)
        return self.look()

    def _see(self) -> Sight:
        return Sight(
            _newest(self._checkpoint / "offsets"),
            _newest(self._checkpoint / "commits"),
            sum(map(_bytes_of, self._target)),
            sum(map(_bytes_of, self._decisions)),
        )


def _partitions(data: Path, topic: str) -> int:
    return sum(each.name.rpartition("-")[0] == topic for each in data.iterdir())


def _newest(folder: Path) -> int:
    """The highest number that names a file."""
    try:
        return max((int(each) for each in os.listdir(folder) if each.isdecimal()), default=-1)
    except FileNotFoundError:
        return -1


def _bytes_of(folder: Path) -> int:
    try:
        return sum(each.stat().st_size for each in folder.glob("*.log"))
    except FileNotFoundError:
        return 0
