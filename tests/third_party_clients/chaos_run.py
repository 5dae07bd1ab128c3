"""A run of clients over a node that dies: what they share, who kills the node, how it ends.

Pipelines read the topic `in` and write one output per input in transactions: librdkafka's workers
in groups of every kind (eager, cooperative, and of the consumer protocol), and aiokafka's workers,
each with partitions of its own.
"""

import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from socket import socket

from node_process import NodeProcess

from penstock.client.admin.blocking import Admin
from penstock.client.values import NewTopic
from penstock.model import TopicPartition
from penstock.testing.history import Pipeline, Recorder

INPUT = "in"
PARTITIONS = 4
WAIT_SECONDS_MAX = 40.0  # for whatever must happen while nobody is killed
CALL_SECONDS_MAX = 20.0  # for one call of a client, deaths of the node included
INPUTS_AHEAD_MAX = 400  # the feeder waits for the slower pipeline
COMMITS_BETWEEN_KILLS_MAX = 25
LIFE_SECONDS_MAX = 4.0  # a node that serves no commits is killed nevertheless
# A member whose farewell was lost holds up its group so long; a new life begins it anew.
SESSION_MS = 1_500
HEARTBEAT_MS = SESSION_MS // 5
BRISK_GROUPS = {
    "group.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
}
JITTER_SECONDS_MAX = 0.2

EAGER, COOPERATIVE, CONSUMER, AIOKAFKA = PIPELINES = [
    Pipeline(group, (INPUT,), (f"out-{group}",))
    for group in ("eager", "cooperative", "consumer", "aiokafka")
]
INPUTS = [TopicPartition(INPUT, number) for number in range(PARTITIONS)]


def outputs_of(pipeline: Pipeline) -> list[TopicPartition]:
    return [TopicPartition(pipeline.outputs[0], number) for number in range(PARTITIONS)]


EVERYTHING = INPUTS + [each for pipeline in PIPELINES for each in outputs_of(pipeline)]


def free_port() -> int:
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class ChaosRun:
    """What the threads of a run share."""

    bootstrap: str
    seed: int
    recorder: Recorder = field(default_factory=Recorder)
    fed_enough: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    violations: list[str] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _processed: dict[str, int] = field(default_factory=dict)  # inputs, by group
    _commits: Counter[str] = field(default_factory=Counter)  # by group
    _threads: list[threading.Thread] = field(default_factory=list)

    def chance(self, name: str) -> Random:
        """Each actor has a chance of its own, so that one does not disturb another's."""
        return Random(f"{self.seed}/{name}")

    # -- progress, which the killer and the feeder wait for

    def committed(self, pipeline: Pipeline) -> None:
        with self._changed:
            self._commits[pipeline.group] += 1
            self._changed.notify_all()

    def commits(self, pipeline: Pipeline) -> int:
        """That were answered."""
        with self._changed:
            return self._commits[pipeline.group]

    def wait_for_commits(self, pipeline: Pipeline, count: int, seconds: float) -> None:
        """Until there were so many more, or the time is over."""
        with self._changed:
            total = self._commits[pipeline.group] + count
            self._changed.wait_for(
                lambda: self._commits[pipeline.group] >= total or self.violations, seconds
            )

    def processed(self, group: str, inputs: int) -> None:
        with self._changed:
            self._processed[group] = inputs
            self._changed.notify_all()

    def wait_for_room(self, fed: int) -> None:
        """The feeder waits here for the slower pipeline."""

        def room() -> bool:
            slowest = min(self._processed.get(each.group, 0) for each in PIPELINES)
            return self.fed_enough.is_set() or fed - slowest < INPUTS_AHEAD_MAX

        with self._changed:
            self._changed.wait_for(room)

    def stop_feeding(self) -> None:
        with self._changed:
            self.fed_enough.set()
            self._changed.notify_all()

    # -- threads

    def start(self, name: str, body: Callable[[], None]) -> threading.Thread:
        """A thread whose failure is a violation."""

        def guarded() -> None:
            try:
                body()
            except BaseException as problem:
                self.violation(f"{name} failed: {problem!r}")
                raise

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def violation(self, sentence: str) -> None:
        with self._changed:
            self.violations.append(sentence)
            self._changed.notify_all()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(WAIT_SECONDS_MAX)
            frame = sys._current_frames().get(thread.ident or 0)
            if frame is not None:
                where = "".join(traceback.format_stack(frame))
                self.violation(f"{thread.name} did not end, it is at:\n{where}")


class MortalNode:
    """A node process on one port and one directory, killed and started again."""

    def __init__(self, data: Path, seed: int) -> None:
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.kills = 0
        self._data = data
        self._chance = Random(f"{seed}/killer")
        self._stack = ExitStack()
        self._node: NodeProcess | None = None

    def start(self) -> None:
        settings = {
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.durability": self._chance.choice(["page-cache", "fsync"]),
            **BRISK_GROUPS,
        }
        self._node = self._stack.enter_context(NodeProcess(self._data, settings))

    def kill(self) -> None:
        assert self._node is not None
        died = self._node.process.poll()
        assert died is None, f"the node ended by itself with {died}: {self._node.stderr}"
        self._node.kill()
        self._stack.close()
        self._node = None
        self.kills += 1

    def close(self) -> None:
        self._stack.close()

    def live_and_die(self, run: ChaosRun, seconds: float) -> None:
        """Kill the node again and again; at the end it is alive."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not run.violations:
            commits = self._chance.randint(1, COMMITS_BETWEEN_KILLS_MAX)
            run.wait_for_commits(self._chance.choice(PIPELINES), commits, LIFE_SECONDS_MAX)
            run.over.wait(self._chance.uniform(0, JITTER_SECONDS_MAX))
            self.kill()
            if self._chance.random() < 0.3:
                run.over.wait(self._chance.uniform(0, JITTER_SECONDS_MAX))
            self.start()


def create_topics(bootstrap: str) -> None:
    names = [INPUT, *(pipeline.outputs[0] for pipeline in PIPELINES)]
    with Admin(bootstrap=bootstrap) as admin:
        results = admin.create_topics([NewTopic(each, partitions=PARTITIONS) for each in names])
    assert [each for each in results.values() if isinstance(each, Exception)] == []
