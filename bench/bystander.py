"""A bystander beside hostile requests: how long its Produce takes while a server is kept busy."""

import os
import signal
import subprocess
import sys
from typing import NamedTuple

from bench import programs, topics
from bench.hostile import ATTACKS, COMPACTED, PARTITIONS, prepare
from bench.programs import DRAIN_SECONDS, LoadFailed, Unanswered
from bench.servers import ROOT, Server

RATE = 200  # requests per second, on two connections
NAME = "bystander"
SLACK_SECONDS = 10


class Waits(NamedTuple):
    """The bystander's waits beside one kind of request, in milliseconds.

    A server that stops answering has waits of the time after which `load` gives up.
    """

    p99_ms: float
    worst_ms: float


def measure(server: Server, seconds: float) -> dict[str, Waits]:
    """Return the bystander's waits by the name of what was going on beside it."""
    topics.create(server.bootstrap, NAME, 2)
    topics.create(server.bootstrap, COMPACTED, PARTITIONS, {"cleanup.policy": "compact"})
    prepare(server.bootstrap)
    found = {}
    for name in ATTACKS:
        found[name] = _beside(server, name, seconds)
    return found


def _beside(server: Server, name: str, seconds: float) -> Waits:
    host, port = server.bootstrap.rsplit(":", 1)
    command = [
        sys.executable,
        "-m",
        "bench.hostile",
        name,
        host,
        port,
        str(seconds + SLACK_SECONDS),
    ]
    hostile = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, process_group=0
    )
    try:
        assert hostile.stdout is not None, "a pipe was asked for"
        if hostile.stdout.readline() != b"ready\n":
            raise LoadFailed(f"the hostile requests {name} could not be built")
        got = programs.load(
            "produce",
            seconds,
            0.5,
            port=server.port,
            topic=NAME,
            partitions=2,
            connections=2,
            rate=RATE,
        )
    except Unanswered:
        # Its waits are at least so long, and have no percentiles.
        return Waits(DRAIN_SECONDS * 1000, DRAIN_SECONDS * 1000)
    finally:
        os.killpg(hostile.pid, signal.SIGKILL)
        hostile.wait()
    return Waits(got["p99_us"] / 1000, got["max_us"] / 1000)
