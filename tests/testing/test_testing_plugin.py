"""The fixtures that the package brings, in this run and in runs of their own."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from process_ends import wait_for_end

from penstock.client.admin.blocking import Admin
from penstock.testing import Cluster, ClusterLike, OutsideCluster

SEEN: set[str] = set()
RUN_SECONDS_MAX = 120

# Writes down what each test got: worker, address and topic.
RECORDING = """
import os
import pytest

@pytest.mark.parametrize("number", range(4))
def test_it(penstock_cluster, penstock_topic, number):
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    with open(PATH, "a") as out:
        out.write(f"{worker} {penstock_cluster.bootstrap} {penstock_topic}\\n")
    from penstock.testing import assert_records
    assert_records(penstock_cluster, penstock_topic, [])
"""


class Run:
    """What the tests of a run have written down."""

    def __init__(self, directory: Path, *options: str, tests: str = RECORDING, **more: str) -> None:
        told = directory / "told"
        told.unlink(missing_ok=True)
        (directory / "test_recording.py").write_text(tests.replace("PATH", repr(str(told))))
        surroundings = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        # Without what this very run has been told.
        surroundings.pop("PENSTOCK_TEST_BOOTSTRAP", None)
        self.ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
            cwd=directory,
            env={**surroundings, "TMPDIR": str(directory), **more},
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS_MAX,
            check=False,
        )
        lines = told.read_text().splitlines() if told.exists() else []
        self.lines = [line.split() for line in lines]

    @property
    def workers(self) -> set[str]:
        return {worker for worker, _, _ in self.lines}

    @property
    def addresses(self) -> set[str]:
        return {address for _, address, _ in self.lines}

    @property
    def topics(self) -> list[str]:
        return [topic for _, _, topic in self.lines]

    def passed(self, count: int) -> "Run":
        assert self.ended.returncode == 0, self.ended.stdout + self.ended.stderr
        assert f"{count} passed" in self.ended.stdout
        return self


@pytest.fixture(scope="module")
def outside() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def topics_at(bootstrap: str) -> list[str]:
    with Admin(bootstrap=bootstrap) as admin:
        return [topic.name for topic in admin.list_topics()]


# -- in this run


@pytest.mark.parametrize("_word", ["a/b", "a-b", "ä"])
@pytest.mark.parametrize("_long", ["", "x" * 300])
def test_every_test_has_a_topic_of_its_own(penstock_topic: str, _word: str, _long: str) -> None:
    assert penstock_topic not in SEEN
    SEEN.add(penstock_topic)


def test_names_end_with_the_run_and_a_number(
    penstock_cluster: ClusterLike, penstock_topic: str, request: pytest.FixtureRequest
) -> None:
    assert penstock_topic in topics_at(penstock_cluster.bootstrap)
    assert re.fullmatch(f"{request.node.name}-[0-9a-f]{{8}}-[0-9]+", penstock_topic)


# -- in runs of their own


def test_workers_have_clusters_and_topics_of_their_own(tmp_path: Path) -> None:
    run = Run(tmp_path, "-n", "2", "--dist", "each").passed(8)
    assert run.workers == {"gw0", "gw1"}
    assert len(run.addresses) == 2
    assert len(set(run.topics)) == 8


def test_the_cluster_may_have_several_nodes(tmp_path: Path) -> None:
    run = Run(tmp_path, "--penstock-brokers", "3").passed(4)
    (address,) = run.addresses
    assert len(address.split(",")) == 3


def test_a_fixture_may_give_the_number_of_nodes(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import pytest\n@pytest.fixture(scope='session')\ndef penstock_brokers(): return 2\n"
    )
    (address,) = Run(tmp_path).passed(4).addresses
    assert len(address.split(",")) == 2


def test_several_nodes_cannot_be_shared(tmp_path: Path) -> None:
    run = Run(tmp_path, "--penstock-brokers", "3", "--penstock-reuse")
    assert run.ended.returncode != 0
    assert "--penstock-reuse shares one node" in run.ended.stdout


def test_an_outside_cluster_is_used_and_left_as_it_was(tmp_path: Path, outside: Cluster) -> None:
    run = Run(tmp_path, "-v", "--penstock-bootstrap", outside.bootstrap).passed(4)
    assert run.addresses == {outside.bootstrap}
    assert len(set(run.topics)) == 4
    assert topics_at(outside.bootstrap) == []
    assert f"tests use the cluster at {outside.bootstrap}" in run.ended.stdout


def test_an_outside_cluster_may_be_named_in_the_environment(
    tmp_path: Path, outside: Cluster
) -> None:
    run = Run(tmp_path, PENSTOCK_TEST_BOOTSTRAP=outside.bootstrap).passed(4)
    assert run.addresses == {outside.bootstrap}


def test_a_shared_node_serves_all_workers_and_the_next_run(tmp_path: Path) -> None:
    first = Run(tmp_path, "--penstock-reuse", "-n", "2", "--dist", "each").passed(8)
    try:
        assert first.workers == {"gw0", "gw1"}
        assert len(first.addresses) == 1
        assert len(set(first.topics)) == 8
        second = Run(tmp_path, "--penstock-reuse").passed(4)
        assert second.addresses == first.addresses
        assert not {*first.topics} & {*second.topics}
        assert topics_at(*first.addresses) == []
    finally:
        end_shared(tmp_path)


def end_shared(directory: Path) -> None:
    for told in directory.glob("penstock-shared-*/*/node.json"):
        process = json.loads(told.read_text())["process"]
        os.kill(process, signal.SIGKILL)
        wait_for_end(process)


SETTINGS = """
import pytest

@pytest.fixture(scope="session")
def penstock_settings():
    return {"num.partitions": 5}
"""
ASKING = """
def test_it(penstock_cluster):
    from penstock.client.admin.blocking import Admin
    from penstock.client.values import NewTopic

    with Admin(bootstrap=penstock_cluster.bootstrap) as admin:
        made = admin.create_topics([NewTopic("a")])["a"]
    assert made.partitions == 5
"""


def test_settings_come_from_a_fixture(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(SETTINGS)
    Run(tmp_path, tests=ASKING).passed(1)


def test_an_outside_cluster_cannot_be_shared(tmp_path: Path) -> None:
    ended = Run(tmp_path, "--penstock-reuse", "--penstock-bootstrap", "127.0.0.1:9092").ended
    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert "choose one of them" in ended.stderr


def test_an_outside_cluster_makes_and_removes_topics(outside: Cluster) -> None:
    cluster = OutsideCluster(outside.bootstrap)
    assert cluster.create_topic("made", 3, {"retention.ms": 5}) == "made"
    assert "made" in topics_at(outside.bootstrap)
    cluster.delete_topic("made")
    cluster.delete_topic("made")
    assert "made" not in topics_at(outside.bootstrap)
