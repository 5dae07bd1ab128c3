"""Workers as processes: signals, health, and being killed in the middle of their work."""

import asyncio
import os
import re
import signal
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from worker_process import WITHOUT_ID, worker_process

from depth import WHOLE
from penstock import Admin, Producer
from penstock.model import TopicPartition
from penstock.retry import Names, Trail, read_trail
from penstock.retry.whole_partitions import read_to_end
from penstock.testing import Cluster
from penstock.testing.external_cluster import ClusterLike

APP = """
import asyncio, os
from penstock.retry import read_trail
from penstock.worker import Worker

app = Worker({"session.timeout.ms": 6000}, group="g-TOPIC")
"""
SLOW = """
@app.on("TOPIC", value=str)
async def handle(value, record):
    print("begun", value, flush=True)
    if value == "short":
        await asyncio.to_thread(lambda: open("go").read())
    else:
        await asyncio.Event().wait()
    print("done", value, flush=True)
"""
STUCK = """
import threading

@app.on("TOPIC", value=str)
def handle(value):
    print("begun", value, flush=True)
    threading.Event().wait()
"""
STUBBORN = """
from penstock.retry import task_group

task_group.CANCEL_S_MAX = 0.5

@app.on("TOPIC", value=str)
async def handle(value):
    print("begun", value, flush=True)
    while True:
        try:
            await asyncio.Event().wait()
        except BaseException:
            continue
"""
# Fails a number of times that its offset says; three failures are the end. What it did is written
# before anything else can happen.
JOURNAL = """
journal = os.open("journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

@app.on("TOPIC", key=str, value=str, retries=("20ms", "50ms"), ordered=True, concurrency=4)
async def handle(value, record):
    again = record.header("penstock-retry-topic") is not None
    attempt = read_trail(record.headers).attempts + 1 if again else 1
    place = f"{record.partition} {record.offset} {record.key} {attempt}"
    os.write(journal, f"try {place}\\n".encode())
    await asyncio.to_thread(int)
    failures = (record.offset * 7) % 5 - 1
    if attempt <= failures:
        if attempt == 3:
            os.write(journal, f"dead {place}\\n".encode())
        print("tried", flush=True)
        raise ValueError(f"attempt {attempt}")
    os.write(journal, f"done {place}\\n".encode())
    print("tried", flush=True)
"""


TRIES_BEFORE_KILLS = (15, 60, 110) if WHOLE else (15, 90)


def write_app(directory: Path, body: str, topic: str) -> None:
    (directory / "shop.py").write_text((APP + body).replace("TOPIC", topic))


async def send(cluster: ClusterLike, topic: str, *pairs: tuple[str | None, str]) -> None:
    async with Producer[Any, Any](WITHOUT_ID, bootstrap=cluster.bootstrap) as producer:
        for key, value in pairs:
            await producer.post(topic, value, key)


def get(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as rejected:
        return rejected.code, rejected.read().decode()


def test_a_signal_lets_what_was_begun_end_and_health_tells(
    penstock_cluster: ClusterLike, tmp_path: Path
) -> None:
    topic = penstock_cluster.create_topic(f"worker-{uuid4().hex[:8]}", 1, {})
    write_app(tmp_path, SLOW, topic)
    os.mkfifo(tmp_path / "go")
    asyncio.run(send(penstock_cluster, topic, (None, "short")))
    arguments = ("--bootstrap", penstock_cluster.bootstrap, "--http", "0")
    with worker_process(tmp_path, "shop:app", *arguments) as worker:
        found = re.search(r"http://([\d.:]+)/health", worker.until("/health"))
        assert found is not None
        worker.until("begun short")
        assert get(found[1], "/health") == (200, "ok\n")
        assert get(found[1], "/ready") == (200, "ok, 1 partitions\n")
        assert get(found[1], "/nowhere")[0] == 404
        status, text = get(found[1], "/metrics")
        assert status == 200
        assert f'penstock_worker_attempts_total{{topic="{topic}"}} 1' in text
        worker.signal(signal.SIGTERM)
        worker.until("a second signal ends at once")
        (tmp_path / "go").write_text("")
        worker.until("done short")
        worker.until("has ended: what was finished is committed")
        assert worker.wait() == 0, worker.lines


def test_a_terminal_that_goes_away_lets_what_was_begun_end(
    penstock_cluster: ClusterLike, tmp_path: Path
) -> None:
    topic = penstock_cluster.create_topic(f"worker-{uuid4().hex[:8]}", 1, {})
    write_app(tmp_path, SLOW, topic)
    os.mkfifo(tmp_path / "go")
    asyncio.run(send(penstock_cluster, topic, (None, "short")))
    with worker_process(tmp_path, "shop", "--bootstrap", penstock_cluster.bootstrap) as worker:
        worker.until("begun short")
        worker.signal(signal.SIGHUP)
        worker.until("a second signal ends at once")
        worker.signal(signal.SIGHUP)  # shells send their own as well
        (tmp_path / "go").write_text("")
        worker.until("done short")
        assert worker.wait() == 0, worker.lines


def test_who_ignores_the_end_of_the_terminal_goes_on(
    penstock_cluster: ClusterLike, tmp_path: Path
) -> None:
    topic = penstock_cluster.create_topic(f"worker-{uuid4().hex[:8]}", 1, {})
    write_app(tmp_path, SLOW, topic)
    asyncio.run(send(penstock_cluster, topic, (None, "long")))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does; the child inherits it
    try:
        with worker_process(tmp_path, "shop", "--bootstrap", penstock_cluster.bootstrap) as worker:
            worker.until("begun long")
            worker.signal(signal.SIGHUP)
            worker.signal(signal.SIGTERM)
            assert "SIGTERM" in worker.until("a second signal ends at once")
            worker.signal(signal.SIGTERM)
            assert worker.wait() == 130, worker.lines
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_second_signal_ends_at_once(penstock_cluster: ClusterLike, tmp_path: Path) -> None:
    topic = penstock_cluster.create_topic(f"worker-{uuid4().hex[:8]}", 1, {})
    write_app(tmp_path, SLOW, topic)
    asyncio.run(send(penstock_cluster, topic, (None, "long")))
    arguments = ("--bootstrap", penstock_cluster.bootstrap)
    with worker_process(tmp_path, "shop", *arguments) as worker:
        worker.until("begun long")
        worker.signal(signal.SIGTERM)
        worker.until("a second signal ends at once")
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 130, worker.lines
        assert not any("done long" in line for line in worker.lines)


@pytest.mark.parametrize("body", [STUCK, STUBBORN], ids=["thread", "coroutine"])
def test_a_function_that_does_not_return_keeps_no_process(
    penstock_cluster: ClusterLike, tmp_path: Path, body: str
) -> None:
    topic = penstock_cluster.create_topic(f"worker-{uuid4().hex[:8]}", 1, {})
    write_app(tmp_path, body, topic)
    asyncio.run(send(penstock_cluster, topic, (None, "long")))
    arguments = ("--bootstrap", penstock_cluster.bootstrap, "--stop-timeout", "0.1")
    with worker_process(tmp_path, "shop", *arguments) as worker:
        worker.until("begun long")
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 1, worker.lines
        assert "1 records were not handled within 0.1 s" in "".join(worker.lines)
        assert "1 functions did not end in time" in "".join(worker.lines)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nowhere:app", "there is no module nowhere"),
        ("shop:nothing", "shop has no nothing"),
        ("shop:os", "not a penstock.worker.Worker"),
        ("shop:app", "handles no topic"),
    ],
)
def test_what_is_no_worker_is_said(tmp_path: Path, target: str, said: str) -> None:
    write_app(tmp_path, "", "t")
    with worker_process(tmp_path, target) as worker:
        assert worker.wait() in (1, 2)
        assert said in "".join(worker.lines)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def handle(:\n", "SyntaxError: invalid syntax"),
        ("def price():\n    return 1 / 0\n\nprice()\n", "ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit('no key')\n", "SystemExit: no key"),
    ],
)
def test_a_module_that_fails_at_its_import_is_said_to_with_its_own_frames(
    tmp_path: Path, broken: str, said: str
) -> None:
    (tmp_path / "shop.py").write_text(broken)
    with worker_process(tmp_path, "shop:app") as worker:
        assert worker.wait() == 2
    first, *traceback = worker.lines
    assert first == "error: shop fails while it is imported:\n"
    assert traceback[-1] == f"{said}\n"
    files = [line.split('"')[1] for line in traceback if line.startswith("  File ")]
    assert set(files) == {str(tmp_path / "shop.py")}


# -- killed


class Line(NamedTuple):
    what: str
    partition: int
    offset: int
    key: str
    attempt: int


def journal_of(directory: Path) -> list[Line]:
    lines = []
    for text in (directory / "journal").read_text().splitlines():
        what, partition, offset, key, attempt = text.split()
        lines.append(Line(what, int(partition), int(offset), key, int(attempt)))
    return lines


async def trails(cluster: ClusterLike, topic: str, partitions: int) -> list[Trail]:
    topic_partitions = [TopicPartition(topic, each) for each in range(partitions)]
    async with Admin(bootstrap=cluster.bootstrap) as admin:
        records = read_to_end(admin, {"bootstrap.servers": cluster.bootstrap}, topic_partitions)
        return [read_trail(each.headers) async for each in records]


def test_a_worker_that_is_killed_again_and_again_keeps_every_promise(tmp_path: Path) -> None:
    """Each record is tried at least once, its dead letter is there exactly once, each failure was
    written at most once, and no record of a key is tried before the ones before it are settled."""
    with Cluster() as cluster:
        topic = cluster.create_topic("orders", 2, {})
        write_app(tmp_path, JOURNAL, topic)
        pairs = [(f"k{n % 10}", f"v{n}") for n in range(200)]
        asyncio.run(send(cluster, topic, *pairs))
        for tries in TRIES_BEFORE_KILLS:
            with worker_process(tmp_path, "shop:app", "--bootstrap", cluster.bootstrap) as worker:
                for _ in range(tries):
                    worker.until("tried")
                worker.kill()
            cluster.advance(minutes=2)  # its membership and its transaction are given up
        with worker_process(tmp_path, "shop:app", "--bootstrap", cluster.bootstrap) as worker:
            while len(state_changed(journal_of(tmp_path))) < len(pairs):
                worker.until("tried")
            worker.signal(signal.SIGTERM)
            assert worker.wait() == 0, "".join(worker.lines)
        judge(cluster, journal_of(tmp_path), len(pairs))


def state_changed(journal: list[Line]) -> set[tuple[int, int]]:
    return {(each.partition, each.offset) for each in journal if each.what != "try"}


def judge(cluster: ClusterLike, journal: list[Line], count: int) -> None:
    names = Names("orders", "g-orders")
    every = {(each.partition, each.offset): each.key for each in journal}
    assert len(every) == count, "every record was tried"
    expected_dead = {
        topic_partition for topic_partition in every if (topic_partition[1] * 7) % 5 - 1 == 3
    }
    dead = asyncio.run(trails(cluster, names.dead, 2))
    assert Counter((each.partition, each.offset) for each in dead) == Counter(expected_dead)
    for wait_ms in (20, 50):
        failures = {
            (each.partition, each.offset, each.attempts, each.last_failed_ms)
            for each in asyncio.run(trails(cluster, names.retry(wait_ms), 2))
            if each.attempts
        }
        # Those that waited again behind another carry the same failure.
        written = Counter(each[:3] for each in failures)
        assert all(number == 1 for number in written.values())
    done: set[tuple[int, int]] = set()
    for line in journal:
        topic_partition = (line.partition, line.offset)
        if line.what != "try":
            done.add(topic_partition)
            continue
        before = [
            each
            for each, key in every.items()
            if key == line.key and each[0] == line.partition and each[1] < line.offset
        ]
        assert all(each in done for each in before), line
