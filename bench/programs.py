"""The load generators: compiled on first use, run with a time limit, their JSON read back."""

import importlib.util
import json
import os
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from bench.servers import CACHE, ROOT

COMPILE_SECONDS_MAX = 120
DRAIN_SECONDS, UNANSWERED_CODE = 30, 3  # as load.c has them
SLACK_SECONDS = 90  # beyond a run's own length: connecting, draining, flushing


class LoadFailed(Exception):
    """A generator could not be built, or saw an answer that it does not accept."""


class Unanswered(LoadFailed):
    """A server left requests without an answer for `DRAIN_SECONDS` after the last one was sent."""


def program(name: str, *, tls: bool = False) -> Path:
    """The compiled generator; compiled again when its source is newer. With `tls` it needs the
    headers of OpenSSL."""
    source, built = ROOT / "bench" / f"{name}.c", CACHE / (f"{name}-tls" if tls else name)
    if built.exists() and built.stat().st_mtime >= source.stat().st_mtime:
        return built
    CACHE.mkdir(parents=True, exist_ok=True)
    handle, fresh = tempfile.mkstemp(dir=CACHE)
    os.close(handle)
    secured = ["-DWITH_TLS", "-lssl", "-lcrypto"] if tls else []
    command = ["cc", "-O2", "-pthread", "-o", fresh, str(source), "-ldl", *secured]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=COMPILE_SECONDS_MAX, check=False
    )
    if done.returncode:
        Path(fresh).unlink()
        raise LoadFailed(f"cannot compile {source.name}:\n{done.stderr}")
    Path(fresh).rename(built)
    return built


def librdkafka() -> Path:
    """The library inside the confluent-kafka wheel."""
    spec = importlib.util.find_spec("confluent_kafka")
    if spec is None or spec.origin is None:
        raise LoadFailed("confluent-kafka is not installed")
    site = Path(spec.origin).parent.parent
    found = sorted(site.glob("confluent_kafka.libs/librdkafka*.so*"))
    if not found:
        raise LoadFailed("this confluent-kafka has no librdkafka of its own")
    return found[0]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a generator printed."""

    numbers: dict[str, float] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        return self.numbers[name]


def _arguments(options: dict[str, object]) -> list[str]:
    return [
        part
        for name, value in options.items()
        for part in (f"--{name.replace('_', '-')}", str(value))
    ]


class Run:
    """A generator at work; `outcome` waits for its end."""

    def __init__(self, command: list[str], seconds: float) -> None:
        self._limit = seconds + SLACK_SECONDS
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def outcome(self) -> Outcome:
        try:
            out, complaints = self._process.communicate(timeout=self._limit)
        except subprocess.TimeoutExpired as slow:
            raise LoadFailed("the generator did not end in time") from slow
        if self._process.returncode == UNANSWERED_CODE:
            raise Unanswered(complaints.strip())
        if self._process.returncode:
            raise LoadFailed(complaints.strip() or f"exit code {self._process.returncode}")
        numbers = {
            name: float(value)
            for name, value in json.loads(out).items()
            if isinstance(value, int | float)
        }
        return Outcome(numbers)


def start_load(mode: str, seconds: float, warmup: float = 0.0, **options: object) -> Run:
    """`load.c`: raw requests."""
    given = {**options, "seconds": seconds, "warmup": warmup}
    built = program("load", tls="tls" in options)
    return Run([str(built), mode, *_arguments(given)], seconds + warmup)


def load(mode: str, seconds: float, warmup: float = 0.0, **options: object) -> Outcome:
    with start_load(mode, seconds, warmup, **options) as run:
        return run.outcome()


def start_rdload(mode: str, seconds: float, warmup: float = 0.0, **options: object) -> Run:
    """`rdload.c`: through librdkafka."""
    given = {**options, "seconds": seconds, "warmup": warmup}
    command = [str(program("rdload")), str(librdkafka()), mode, *_arguments(given)]
    return Run(command, seconds + warmup)


def rdload(mode: str, seconds: float, warmup: float = 0.0, **options: object) -> Outcome:
    with start_rdload(mode, seconds, warmup, **options) as run:
        return run.outcome()
