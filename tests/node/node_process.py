"""A node as users run it: a process of its own, started with the `penstock start` command."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

START_SECONDS_MAX = 20.0
REFUSE_SECONDS_MAX = 8.0
COMMAND = (sys.executable, "-m", "penstock")
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "offsets.topic.replication.factor": "1",
    "metrics.listener": "",
}


def start_arguments(data: Path, settings: Mapping[str, str] | None = None) -> list[str]:
    arguments = [*COMMAND, "start", "--format", "json", "--data", str(data)]
    for key, value in {**SETTINGS, **(settings or {})}.items():
        arguments += ["--set", f"{key}={value}"]
    return arguments


def refused(
    data: Path,
    settings: Mapping[str, str] | None = None,
    *more: str,
    before: Sequence[str] = (),
) -> str:
    """What a node says that must not start; with the promises every refusal keeps."""
    ended = subprocess.run(
        [*before, *start_arguments(data, settings), *more],
        capture_output=True,
        text=True,
        timeout=REFUSE_SECONDS_MAX,
        check=False,
    )
    assert ended.returncode == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""
    return ended.stderr


class NodeProcess:
    """One node process on a free port; killed, whatever happens, at the end of its `with`."""

    def __init__(
        self,
        data: Path,
        settings: Mapping[str, str] | None = None,
        *,
        before: Sequence[str] = (),
        after: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`before` is a command that is to run the node; `after` are further options."""
        self.data = data
        self._errors = (data.parent / f"{data.name}.stderr").open("a+")
        self.process = subprocess.Popen(
            [*before, *start_arguments(data, settings), *after],
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def __enter__(self) -> Self:
        try:
            self.announcement = self._wait_until_started()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        if self.process.poll() is None:
            self.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()

    def _wait_until_started(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(START_SECONDS_MAX):
                raise TimeoutError(f"the node did not start: {self.stderr}")
        line = self.process.stdout.readline()
        assert line, f"the node did not start: {self.stderr}"
        started: dict[str, Any] = json.loads(line)
        return started

    @property
    def stderr(self) -> str:
        self._errors.seek(0)
        return self._errors.read()

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.announcement["listeners"][0].rpartition("//")[2].rpartition(":")
        return host, int(port)

    @property
    def bootstrap(self) -> str:
        return "{}:{}".format(*self.address)

    @property
    def resident_bytes(self) -> int:
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    @property
    def cpu_seconds(self) -> float:
        """User and system time of the process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def terminate(self) -> tuple[int, float]:
        """SIGTERM; the exit code and the seconds it took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(START_SECONDS_MAX)
        return code, time.monotonic() - began

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(START_SECONDS_MAX)


def own_disk(directory: Path, options: str) -> list[str]:
    """A command prefix that mounts a small disk at `directory`, for what it runs alone."""
    mount = f"mount -t tmpfs -o {options} tmpfs {directory} && exec"
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", f'{mount} "$@"', "sh"]
    try:
        subprocess.run([*command, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as refusal:
        pytest.skip(f"this user may not mount a disk of its own: {refusal}")
    return command


def produce_all(
    bootstrap: str, topic: str, values: Sequence[bytes], *, apart: bool = False
) -> list[KafkaError | None]:
    """Send each value, `apart` in a batch of its own; what was said to each."""
    said: list[KafkaError | None] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0}
    )
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _message: said.append(error))
        if apart:
            producer.flush(START_SECONDS_MAX)
    producer.flush(START_SECONDS_MAX)
    assert len(said) == len(values), "every record is answered"
    return said


def read_all(bootstrap: str, topic: str, partitions: int = 1) -> list[bytes]:
    """Everything in the topic, up to its end as of now."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False}
    )
    try:
        places = [TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)]
        ends = [
            consumer.get_watermark_offsets(each, timeout=START_SECONDS_MAX)[1] for each in places
        ]
        consumer.assign(places)
        values: list[bytes] = []
        until = time.monotonic() + START_SECONDS_MAX
        while len(values) < sum(ends):
            assert time.monotonic() < until, f"{len(values)} of {sum(ends)} records were read"
            for message in consumer.consume(1_000, 0.5):
                assert message.error() is None, message.error()
                values.append(message.value() or b"")
        return values
    finally:
        consumer.close()
