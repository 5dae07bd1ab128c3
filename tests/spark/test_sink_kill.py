"""The sink in real processes against a real node, all of which are killed.

PENSTOCK_KILL_RUNS says how many lives with random deaths, PENSTOCK_KILL_SEED where to begin.
"""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from sink_output import PARTITIONS, committed, still_open
from sink_process import (
    FINISHED,
    Job,
    kill,
    kill_group,
    pause,
    start,
    wait,
    workers_of,
)

from depth import sample
from penstock.client.values import NewTopic
from penstock.spark.sink.driver import settle
from penstock.testing import Cluster

RUNS = int(os.environ.get("PENSTOCK_KILL_RUNS", "2"))
FIRST_SEED = int(os.environ.get("PENSTOCK_KILL_SEED", "1"))
STEPS_MAX = 80
LIVES_MAX = 10
SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def job_of(cluster: Cluster, folder: Path, name: str, rows: int) -> Job:
    job = Job(cluster.bootstrap, name, str(folder / name), rows)
    with job.options.connect() as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])
    return job


def finish(job: Job) -> None:
    """Start the query until it has read everything."""
    for _ in range(LIVES_MAX):
        if wait(start(job), SECONDS_MAX) == FINISHED:
            return
    raise AssertionError("the query comes to no end")


def judge(job: Job) -> None:
    """What late workers left is recovered, as `penstock txn recover` does it."""
    assert job.options.sink_id is not None
    settle(job.options, job.options.sink_id)
    assert still_open(job.options) == []
    assert committed(job.options) == list(range(job.rows))


def test_a_driver_that_is_killed_at_any_step_loses_and_doubles_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    # test_sink_steps.py interrupts the protocol at each step; here some of them meet processes.
    for step in sample(range(1, STEPS_MAX), every=4):
        job = job_of(cluster, tmp_path, f"step-{step}", 5)
        dying = Job(job.bootstrap, job.topic, job.folder, job.rows, dies_at=step)
        ended = wait(start(dying), SECONDS_MAX)
        if ended == FINISHED:
            assert step > 12, "a life has more steps than that"
            judge(job)
            return
        assert ended == -signal.SIGKILL
        finish(job)
        judge(job)
    raise AssertionError("a short life has fewer steps")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def disturb(chance: Random, job: Job, cluster: Cluster) -> None:
    """One life of the query, and what happens to it."""
    process = start(job)
    pause(chance.randint(0, 250))
    match chance.choice(["driver", "all", "worker", "older driver", "node"]):
        case "driver":
            assert process.pid is not None
            kill(process.pid)
        case "all":
            kill_group(process)
        case "worker":
            for each in workers_of(job):
                kill(each)
        case "older driver":
            assert process.pid is not None
            kill(process.pid, signal.SIGSTOP)
            newer = start(job)
            pause(chance.randint(0, 400))
            kill(process.pid, signal.SIGCONT)
            wait(newer, SECONDS_MAX)
        case "node":
            cluster.kill()
            pause(chance.randint(0, 100))
            cluster.start()
    if wait(process, SECONDS_MAX) is None:
        kill_group(process)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + RUNS))
def test_random_deaths_lose_and_double_nothing(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    # A node that is started again has to be found where it was.
    with Cluster({"listeners": f"PLAINTEXT://127.0.0.1:{free_port()}"}) as cluster:
        job = job_of(cluster, tmp_path, f"seed-{seed}", 40)
        for _ in range(4):
            disturb(chance, job, cluster)
        finish(job)
        for each in workers_of(job):
            kill(each)
        judge(job)
