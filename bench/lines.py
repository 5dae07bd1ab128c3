"""`penstock produce` beside Apache Kafka's console producer: a file of lines on its way to a topic.

The time is that of the whole command, its start included, as somebody at a terminal sees it. Both
write to the same Penstock. JSON lines have no twin in Kafka's tool: both read the same file there,
which Kafka's takes for plain lines.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bench.clients import OURS, PARTITIONS

if TYPE_CHECKING:
    from bench.row import Context, Sample

LINES = 3_000_000
LINES_QUICK = 200_000
LINE = "x" * 99
COMMAND_SECONDS_MAX = 300
# What is promised of the command itself, whatever the other side does.
PLAIN_LINES_PER_SECOND = 500_000.0
JSON_LINES_PER_SECOND = 150_000.0


def write_lines(path: Path, count: int, as_json: bool) -> None:
    with path.open("w") as file:
        for number in range(count):
            if as_json:
                value = {"id": number, "name": f"customer-{number}", "amount": number / 4}
                line = json.dumps({"key": str(number % 1_000), "value": value})
                file.write(f"{line}\n")
            else:
                file.write(f"{LINE}\n")


def _command(context: "Context", topic: str, as_json: bool) -> list[str]:
    from bench.servers import java_class

    bootstrap = context.server.bootstrap
    if context.side == OURS:
        command = [sys.executable, "-m", "penstock", "--bootstrap", bootstrap, "produce", topic]
        return [*command, "--input", "json"] if as_json else command
    tool = "org.apache.kafka.tools.ConsoleProducer"
    return java_class(tool, "--bootstrap-server", bootstrap, "--topic", topic)


def produced(as_json: bool) -> "Callable[[Context], Sample]":
    """A row: lines per second of the whole command."""

    def measure(context: "Context") -> "Sample":
        from bench import topics
        from bench.programs import LoadFailed
        from bench.row import Sample
        from bench.servers import scratch

        count = LINES_QUICK if context.quick else LINES
        topic = context.topic_name()
        topics.create(context.server.bootstrap, topic, PARTITIONS)
        with scratch() as place:
            path = place / "lines"
            write_lines(path, count, as_json)
            began = time.perf_counter()
            with path.open("rb") as lines:
                ran = subprocess.run(
                    _command(context, topic, as_json),
                    stdin=lines,
                    capture_output=True,
                    text=True,
                    timeout=COMMAND_SECONDS_MAX,
                    check=False,
                )
            seconds = time.perf_counter() - began
        topics.delete(context.server.bootstrap, topic)
        if ran.returncode:
            raise LoadFailed(ran.stderr.strip())
        rate = count / seconds
        promised = JSON_LINES_PER_SECOND if as_json else PLAIN_LINES_PER_SECOND
        if context.side == OURS and not context.quick and rate < promised:
            raise LoadFailed(f"{rate:,.0f} lines/s; {promised:,.0f} are promised")
        return Sample(rate)

    return measure
