"""Real clients in transactions over nodes that die again and again, judged by their history.

PENSTOCK_CHAOS_SECONDS says how long a sole node is killed, PENSTOCK_CHAOS_FAULTS how many faults
three nodes meet, PENSTOCK_CHAOS_SEED repeats the choices of a run.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import chaos_aiokafka
import pytest
from chaos_librdkafka import MEMBERSHIPS, Worker, feed
from chaos_readers import Auditor, Reader
from chaos_run import PIPELINES, WAIT_SECONDS_MAX, ChaosRun, MortalNode, create_topics
from mortal_cluster import MortalCluster

from penstock.testing.history import Ending, Isolation, check

SECONDS = float(os.environ.get("PENSTOCK_CHAOS_SECONDS", "15"))
SEED = int(os.environ.get("PENSTOCK_CHAOS_SEED", "1"))
FAULTS = int(os.environ.get("PENSTOCK_CHAOS_FAULTS", "12"))
SECONDS_PER_FAULT = 10.0
SECONDS_BESIDES = 240.0  # to start, to catch up, to read everything again
KILLS_MIN = 2
COMMITS_MIN = 20


@pytest.fixture
def node(tmp_path: Path) -> Iterator[MortalNode]:
    with closing(MortalNode(tmp_path / "data", SEED)) as node:
        node.start()
        create_topics(node.bootstrap)
        yield node


def live_through(run: ChaosRun, suffer: Callable[[], None]) -> None:
    """Clients at work while nodes suffer; then these live until all inputs are processed."""
    reader = Reader(run, "reader-librdkafka", Isolation.READ_COMMITTED)
    watcher, auditor = Auditor(run, "watcher"), Auditor(run, "auditor")
    feeder = run.start("feeder", lambda: feed(run))
    for pipeline in MEMBERSHIPS:
        for name in (f"{pipeline.group}-1", f"{pipeline.group}-2"):
            run.start(name, Worker(run, pipeline, name).work)
    run.start("aiokafka", lambda: chaos_aiokafka.run_workers(run))
    run.start("reader", reader.follow)
    run.start("watcher", watcher.watch)
    try:
        suffer()
        run.stop_feeding()
        feeder.join(WAIT_SECONDS_MAX)
        auditor.wait_until_all_is_processed()
    finally:
        run.stop_feeding()
        run.over.set()
        run.join()
    for group in (each.group for each in PIPELINES):
        auditor.progress(group)
    reader.read_to_end(auditor.ends)
    uncommitted = Reader(run, "reader-uncommitted", Isolation.READ_UNCOMMITTED)
    uncommitted.read_to_end(auditor.ends)
    chaos_aiokafka.read_to_end(run, auditor.ends)
    for each in (reader, uncommitted, watcher, auditor):
        each.close()


def judge(run: ChaosRun, directory: Path) -> None:
    assert run.violations == []
    history = run.recorder.history()
    report = check(history, pipelines=PIPELINES)
    if not report.clean:
        file = directory / "history.txt"
        file.write_text("".join(f"{each}\n" for each in history))
        raise AssertionError(f"{report.text}\n(seed {SEED}; the history is in {file})")
    assert report.unread == 0
    assert report.endings[Ending.COMMITTED] >= COMMITS_MIN, report.text
    assert all(run.commits(each) > 0 for each in PIPELINES), report.text


@pytest.mark.deep
@pytest.mark.timeout(SECONDS + SECONDS_BESIDES)
def test_consume_transform_produce_is_exactly_once_while_the_node_is_killed(
    node: MortalNode, tmp_path: Path
) -> None:
    run = ChaosRun(node.bootstrap, SEED)
    live_through(run, lambda: node.live_and_die(run, SECONDS))
    judge(run, tmp_path)
    assert node.kills >= KILLS_MIN


@pytest.fixture(params=["in the process", "as processes"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MortalCluster]:
    processes = request.param == "as processes"
    with closing(MortalCluster(tmp_path / "data", SEED, processes=processes)) as cluster:
        cluster.start()
        create_topics(cluster.bootstrap)
        yield cluster


@pytest.mark.deep
@pytest.mark.timeout(FAULTS * SECONDS_PER_FAULT + SECONDS_BESIDES)
def test_consume_transform_produce_is_exactly_once_while_nodes_of_a_cluster_fail(
    cluster: MortalCluster, tmp_path: Path
) -> None:
    run = ChaosRun(cluster.bootstrap, SEED)
    live_through(run, lambda: cluster.live_and_die(run, FAULTS))
    judge(run, tmp_path)
    assert cluster.faults.total() == FAULTS
