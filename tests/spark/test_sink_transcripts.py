"""The sink's protocol as transcripts: which process asks the cluster for what, and what follows.

A script names the climate of a life and its one misfortune; the trace is every request that had an
effect, in order, then the rows that are there.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sink_broker import Broker
from sink_network import Killed
from sink_spark import QueryRun
from sink_world import FINE, Climate, World

from penstock.errors import KafkaError
from penstock.model import TopicPartition
from penstock.spark.sink.decisions import END_VERSION_V2, decode
from transcripts import Command, check

SCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
ROWS = 4


class TracedBroker(Broker):
    """A broker that writes down each request that it was asked."""

    def __init__(self, *, end_version: int, trace: list[str]) -> None:
        super().__init__(end_version=end_version)
        self._trace = trace
        self._adds_by_itself = end_version < END_VERSION_V2
        self.process = "?"

    def _told(self, what: str, ask: Callable[[], Any]) -> Any:
        try:
            answer = ask()
        except KafkaError as error:
            self._trace.append(f"{self.process}: {what} -> {type(error).__name__}")
            raise
        shown = "" if answer is None else f" -> {answer[0]}/{answer[1]}"
        self._trace.append(f"{self.process}: {what}{shown}")
        return answer

    def init(self, name: str, timeout_ms: int | None) -> tuple[int, int]:
        asked = super().init
        pair: tuple[int, int] = self._told(f"init {name}", lambda: asked(name, timeout_ms))
        return pair

    def add(self, name: str, producer_id: int, epoch: int, place: TopicPartition) -> None:
        asked = super().add
        if not self._adds_by_itself:  # a part of the write
            asked(name, producer_id, epoch, place)
            return
        self._told(
            f"add {place.topic}-{place.partition} by {producer_id}/{epoch}",
            lambda: asked(name, producer_id, epoch, place),
        )

    def end(
        self, name: str, producer_id: int, epoch: int, *, commit: bool, version: int
    ) -> tuple[int, int]:
        asked = super().end
        verb = "commit" if commit else "abort"
        pair: tuple[int, int] = self._told(
            f"{verb} {name} by {producer_id}/{epoch}",
            lambda: asked(name, producer_id, epoch, commit=commit, version=version),
        )
        return pair

    def produce(
        self,
        name: str,
        producer_id: int,
        epoch: int,
        sequence: int,
        place: TopicPartition,
        value: Any,
        *,
        transactions_v2: bool,
    ) -> None:
        asked = super().produce
        self._told(
            f"write {self._row(place, value)} to {place.topic}-{place.partition}"
            f" by {producer_id}/{epoch}",
            lambda: asked(
                name, producer_id, epoch, sequence, place, value, transactions_v2=transactions_v2
            ),
        )

    def _row(self, place: TopicPartition, value: Any) -> str:
        if place.topic == "output":
            return f"row {value[1]}"
        decision = decode(*value)
        return f"{type(decision).__name__.lower()} {getattr(decision, 'stage', '')}".rstrip()

    def write_markers(self, name: str) -> None:
        state = self.ids[name].state.name.removeprefix("PREPARE_").lower()
        self._trace.append(f"markers: {state} {name}")
        super().write_markers(name)


class TracedWorld(World):
    """A quiet life, but for one death before or after the n-th request of a process."""

    def __init__(self, climate: Climate, dying: str, number: int) -> None:
        super().__init__(7, climate)
        self.weather = FINE
        self.source_end = ROWS
        self.lines: list[str] = []
        self.broker = self._traced = TracedBroker(end_version=climate.end_version, trace=self.lines)
        self._dying = dying
        self._left = number

    def before_request(self, process: str) -> None:
        super().before_request(process)
        self._traced.process = process
        self._count(process)

    def after_request(self, process: str) -> None:
        super().after_request(process)
        self._count(process)

    def _count(self, process: str) -> None:
        if process == self._dying:
            self._left -= 1
            if self._left == 0:
                self.lines.append(f"{process}: killed")
                raise Killed


def live(command: Command) -> list[str]:
    """Live one life: `life VERSION`, or `life VERSION killed=driver at=3`."""
    assert command.verb == "life", command.line
    climate = Climate(end_version=int(command.objects[0]))
    world = TracedWorld(climate, command.options.get("killed", ""), command.number("at", 0))
    while True:
        query = QueryRun(world, world.checkpoint)
        world.queries.append(query)
        world._run_out()
        offsets = world.checkpoint.offsets
        if offsets[-1][1] == ROWS and world.checkpoint.commits == len(offsets):
            break
        world.lines.append("the query starts again")
        assert len(world.queries) < ROWS, world.lines
    world.recover()
    world._run_out()
    rows = sorted(row for _, row in world.output().elements())
    return [*world.lines, f"committed rows: {' '.join(map(str, rows))}"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_sink_asks_as_the_transcript_says(script: Path) -> None:
    check(script, live)
