"""Spark's standalone cluster on this machine: a master and two workers from the PySpark package.

Each is a process group of its own on free ports of 127.0.0.1; leaving the block ends them.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from bench.servers import Ports, ServerFailed
from penstock.spark.java import find_java

HOME = Path(pyspark.__file__).parent
WORKERS = 2
START_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 30.0
LOOK_SECONDS = 0.1


@contextmanager
def spark_cluster(place: Path) -> Iterator[str]:
    """Its master's address."""
    address = f"127.0.0.1:{Ports.free().client}"
    host, _, port = address.partition(":")
    with ExitStack() as running:
        arguments = ["--host", host, "--port", port, "--webui-port", "0"]
        log = place / "master.log"
        running.enter_context(_process("master.Master", arguments, log))
        _wait_for(log, "I have been elected leader", 1)
        for number in range(WORKERS):
            arguments = ["--host", host, "--webui-port", "0", "--cores", "1", "--memory", "1g"]
            arguments += ["--work-dir", str(place / f"worker-{number}"), f"spark://{address}"]
            running.enter_context(_process("worker.Worker", arguments, place / f"{number}.log"))
        _wait_for(log, "Registering worker", WORKERS)
        yield f"spark://{address}"


@contextmanager
def _process(name: str, arguments: list[str], log: Path) -> Iterator[None]:
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    surroundings = {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=surroundings,
            start_new_session=True,
        )
    try:
        yield
    finally:
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
        except ProcessLookupError:
            pass
        try:
            process.wait(STOP_SECONDS_MAX)
            return
        except subprocess.TimeoutExpired:
            continue


def _wait_for(log: Path, words: str, times: int) -> None:
    until = time.monotonic() + START_SECONDS_MAX
    while log.read_text(errors="replace").count(words) < times:
        if time.monotonic() > until:
            raise ServerFailed(f"no {words!r} in the log of Spark's master:\n{log.read_text()}")
        time.sleep(LOOK_SECONDS)
