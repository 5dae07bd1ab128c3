"""A node of the demo's own: a process on a free port, with data that goes when it ends."""

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30


class NodeFailed(Exception):
    """The node did not start."""


@contextmanager
def running_node(folder: Path) -> Iterator[str]:
    """The node's address, for the length of a block."""
    # A port of 0 is any that is free. Kafka's variables are settings of somebody else's node.
    command = [sys.executable, "-m", "penstock", "start", "--format", "json"]
    command += ["--set", "listeners=PLAINTEXT://127.0.0.1:0", "--data", str(folder / "node")]
    surroundings = {name: os.environ[name] for name in os.environ if not name.startswith("KAFKA_")}
    log = folder / "node.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=surroundings,
            start_new_session=True,  # Ctrl-C is for the demo, which ends the node last
        )
    try:
        yield _address(process, log)
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        line = process.stdout.readline() if selector.select(START_SECONDS_MAX) else b""
    if not line:
        raise NodeFailed(f"the node did not start:\n{log.read_text(errors='replace')}")
    listener: str = json.loads(line)["listeners"][0]
    return listener.partition("://")[2]
