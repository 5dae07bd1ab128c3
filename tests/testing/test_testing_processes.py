"""Nodes in processes of their own: signals, restarts, and that none is left behind."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from process_ends import END_SECONDS_MAX, wait_for_end

from penstock.client.admin.blocking import Admin
from penstock.client.transport.connection import CannotReach, Connection
from penstock.testing import Cluster, Fail, NodeFailed, NotPossible
from penstock.testing.process_node import ProcessNode

CLEAN_MARKER = ".kafka_cleanshutdown"


def process_of(cluster: Cluster) -> int:
    (node,) = cluster._nodes.values()
    assert isinstance(node, ProcessNode)
    return node.process_id


def topics(cluster: Cluster) -> list[str]:
    with Admin(bootstrap=cluster.bootstrap) as admin:
        return [topic.name for topic in admin.list_topics()]


def test_a_cluster_may_be_a_process_and_leaves_nothing_behind() -> None:
    with Cluster({"num.partitions": 3}, processes=True) as cluster:
        cluster.create_topic("a")
        assert topics(cluster) == ["a"]
        process, data = process_of(cluster), Path(cluster.data)
        assert process != os.getpid()
        assert (data / "a-0").is_dir()
    wait_for_end(process)
    assert not data.parent.exists()


def test_the_data_of_a_process_may_lie_in_memory() -> None:
    with Cluster(processes=True, memory=True) as cluster:
        assert Path(cluster.data).is_relative_to("/dev/shm")
        assert topics(cluster) == []


def test_a_killed_process_keeps_what_was_written_and_its_port(tmp_path: Path) -> None:
    with Cluster(processes=True, data=tmp_path) as cluster:
        before = cluster.bootstrap
        cluster.create_topic("a")
        cluster.kill(1)
        assert not (tmp_path / CLEAN_MARKER).exists()
        cluster.restart(1)
        assert cluster.bootstrap == before
        assert topics(cluster) == ["a"]
        cluster.stop()
        assert (tmp_path / CLEAN_MARKER).exists()


def test_a_paused_process_answers_nobody_until_it_is_resumed() -> None:
    with Cluster(processes=True) as cluster:
        cluster.pause()
        with pytest.raises(CannotReach):
            Connection(*cluster.address, timeout_ms=200)
        cluster.resume()
        assert topics(cluster) == []
        cluster.pause()
        cluster.kill()
        cluster.restart()
        cluster.pause()


def test_a_process_that_cannot_start_says_why(tmp_path: Path) -> None:
    with Cluster(data=tmp_path), pytest.raises(NodeFailed, match="Another node is using"):
        Cluster(processes=True, data=tmp_path).start()


def test_a_process_that_ends_by_itself_is_reported_by_what_is_asked_next() -> None:
    cluster = Cluster(processes=True).start()
    process = process_of(cluster)
    os.kill(process, signal.SIGKILL)
    wait_for_end(process)
    (node,) = cluster._nodes.values()
    assert isinstance(node, ProcessNode)
    assert node._life is not None
    assert node._life.ended.wait(END_SECONDS_MAX)
    for ask in (lambda: cluster.bootstrap, cluster.close):
        with pytest.raises(NodeFailed, match="ended by SIGKILL"):
            ask()


def test_what_only_a_node_in_this_process_can_do_is_refused() -> None:
    with Cluster(processes=True) as cluster:
        with pytest.raises(NotPossible, match="advance: only for nodes in this process"):
            cluster.advance(minutes=5)
        with pytest.raises(NotPossible, match="intercept: only"):
            cluster.intercept("Produce", Fail(1))
        with pytest.raises(NotPossible, match="broker: only"):
            _ = cluster.broker


def test_metrics_of_a_process_can_be_reached() -> None:
    with Cluster({"metrics.listener": "127.0.0.1:0"}, processes=True) as cluster:
        assert cluster.metrics_url.startswith("http://127.0.0.1:")


PROGRAM = """
import os, signal, sys
from penstock.testing import Cluster

cluster = Cluster(processes=True).start()
(node,) = cluster._nodes.values()
{then}
print(node.process_id, cluster.data, flush=True)
{end}
"""


@pytest.mark.each_value
@pytest.mark.parametrize("then", ["", "cluster.pause()"], ids=["running", "paused"])
@pytest.mark.parametrize(
    "end",
    ["", "raise SystemExit(3)", "os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"],
    ids=["end of the program", "SystemExit", "_exit", "SIGKILL"],
)
def test_no_process_outlives_the_one_that_started_it(then: str, end: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(then=then, end=end)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    process, data = ran.stdout.split()
    wait_for_end(int(process))
    if end in ("", "raise SystemExit(3)"):
        assert not Path(data).parent.exists(), "what is temporary goes at an exit"
    else:
        shutil.rmtree(Path(data).parent)


def test_a_process_does_not_end_with_the_thread_that_asked_for_it() -> None:
    made: list[Cluster] = []
    thread = threading.Thread(target=lambda: made.append(Cluster(processes=True).start()))
    thread.start()
    thread.join()
    (cluster,) = made
    assert topics(cluster) == []
    cluster.close()
