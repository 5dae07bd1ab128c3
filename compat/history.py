"""Apache Kafka's own client in transactions over a server that is killed again and again.

Three groups (eager, cooperative, and of the consumer protocol) consume, transform and produce; what
they were told is judged as a history. The same clients without transactions must be caught at it.
"""

import random
import subprocess
from collections import Counter
from pathlib import Path

from bench import topics
from bench.servers import CACHE, Ports, java_class, kafka_jars, scratch
from compat.directories import node, ourselves
from compat.report import Report
from compat.story import Story
from penstock.testing.history import Ending, NotExactlyOnce, Pipeline, check

SOURCES = ("HistoryClients.java", "HistoryStory.java", "HistoryWorker.java")
INPUT = "in"
PIPELINES = [
    Pipeline(group, (INPUT,), (f"out-{group}",)) for group in ("classic", "cooperative", "consumer")
]
PARTITIONS = 4
SEED = 4301
COMPILE_SECONDS_MAX = 120
# Of both servers: Apache Kafka needs some seconds for each start.
KILLS, KILLS_PLAIN = 12, 3
COMMITS_BETWEEN_KILLS_MAX = 40
LIFE_SECONDS_MAX = 60.0  # a server that serves no commits is killed nevertheless
FINISH_SECONDS_MAX = 400.0
COMMITS_MIN = 20  # of each group
ERROR_CHARACTERS_MAX = 2000
# A member whose farewell was lost holds up its group so long.
SESSION_MS = 1_500
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": str(SESSION_MS // 5),
    "group.consumer.heartbeat.interval.ms": str(SESSION_MS // 5),
}


class Clients:
    """The process with all clients; what it tells goes into a story."""

    def __init__(self, classes: Path, bootstrap: str, mode: str, errors: Path) -> None:
        command = java_class(
            # The last class path counts.
            *("-cp", f"{kafka_jars()}/*:{classes}", "HistoryClients"),
            *(bootstrap, str(PARTITIONS), mode, str(SEED)),
        )
        self._errors = errors
        with errors.open("wb") as file:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True
            )
        assert self._process.stdout is not None
        self.story = Story(self._process.stdout)

    def finish(self) -> None:
        """Let them do what is left, and read everything."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        if not self.story.wait_until_done(FINISH_SECONDS_MAX):
            said = [*self.story.violations, self._errors.read_text()[-ERROR_CHARACTERS_MAX:]]
            raise RuntimeError("\n".join(["the clients did not finish", *said]))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self.story.close()


def compile_clients(place: Path) -> Path:
    """Where the classes are."""
    classes = place / "classes"
    (java, *_) = java_class()
    here = Path(__file__).parent
    sources = [str(here / name) for name in SOURCES]
    subprocess.run(
        [f"{java}c", "-cp", f"{kafka_jars()}/*", "-d", str(classes), *sources],
        timeout=COMPILE_SECONDS_MAX,
        check=True,
    )
    return classes


def _live_and_die(place: Path, classes: Path, mode: str, kills: int) -> Story:
    """Kill the server so often while the clients work; then it lives until they are done."""
    chance = random.Random(SEED)
    data, ports = place / mode, Ports.free()
    clients: Clients | None = None
    try:
        for _ in range(kills):
            # Apache Kafka does not know the durability, and does not mind.
            how = {"log.durability": chance.choice(["page-cache", "fsync"])}
            with node(ourselves(), data, ports, clean=False, changes={**SETTINGS, **how}) as server:
                if clients is None:
                    for name in (INPUT, *(each.outputs[0] for each in PIPELINES)):
                        topics.create(server.bootstrap, name, PARTITIONS)
                    errors = place / f"{mode}-clients.log"
                    clients = Clients(classes, server.bootstrap, mode, errors)
                    clients.story.wait_for_commits(1, FINISH_SECONDS_MAX)
                commits = chance.randint(1, COMMITS_BETWEEN_KILLS_MAX)
                clients.story.wait_for_commits(commits, LIFE_SECONDS_MAX)
        assert clients is not None
        with node(ourselves(), data, ports, clean=False, changes=SETTINGS):
            clients.finish()
    finally:
        if clients is not None:
            clients.close()
    return clients.story


def check_history(report: Report) -> None:
    with scratch() as place:
        classes = compile_clients(place)
        story = _live_and_die(place, classes, "transactions", KILLS)
        judge(report, story, f"{KILLS} deaths of its server")
        _check_plain(report, _live_and_die(place, classes, "plain", KILLS_PLAIN))


def judge(report: Report, story: Story, over: str) -> None:
    """Expect each pipeline to be exactly once, over what the servers have met."""
    history = story.recorder.history()
    found = check(history, pipelines=PIPELINES)
    kept = CACHE / "history.txt"
    if not found.clean:
        kept.write_text("".join(f"{each}\n" for each in history))
    report.expect(not story.violations, "nobody did what it must not", "\n".join(story.violations))
    report.expect(
        found.clean and not found.unread,
        f"Java's client is exactly once over {over}, in eager, cooperative and consumer groups",
        f"{found.text}\n(the history is in {kept})",
    )
    commits = Counter[str]()
    for name, count in story.commits_by_name.items():
        commits[name.rpartition("-")[0]] += count
    report.expect(
        all(commits[each.group] >= COMMITS_MIN for each in PIPELINES)
        and found.endings[Ending.ABORTED] > 0,
        "that says something: there were commits in every group, and aborts",
        f"{found.text}\n{commits}",
    )
    behind = [
        f"{name} is at epoch {story.epochs.get(name)} after {count} commits"
        for name, count in story.commits_by_name.items()
        if story.epochs.get(name, -1) < count
    ]
    report.expect(not behind, "every end has bumped the epoch: transactions v2", "\n".join(behind))


def _check_plain(report: Report, story: Story) -> None:
    history = story.recorder.history()
    found = check(history, pipelines=PIPELINES)
    twice = [each for each in found.anomalies if isinstance(each, NotExactlyOnce)]
    report.expect(
        any(len(each.outputs) > each.expected for each in twice),
        "a copy without transactions is caught: it has duplicates",
        found.text,
    )
    others = check(history, pipelines=PIPELINES, allowed=[NotExactlyOnce])
    report.expect(
        others.clean and not story.violations,
        "and nothing else is wrong with it",
        "\n".join([others.text, *story.violations]),
    )
