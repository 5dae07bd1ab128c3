"""`penstock log status` against a node, and what it says when there is none."""

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from cli_running import run

from penstock.cli.log.status import STRAYS_SHOWN_MAX, FirstSeen, Status, lines, rates
from penstock.testing import Cluster

STATUS: Status = {
    "version": "0.1.0",
    "node_id": 3,
    "started_ms": 0,
    "now_ms": 61_000,
    "stopping": False,
    "directories": [
        {
            "path": "/disk1",
            "state": "works",
            "reason": None,
            "partitions": 12,
            "free_bytes": 1024**3,
            "total_bytes": 2 * 1024**3,
        },
        {
            "path": "/disk2",
            "state": "failed",
            "reason": "cannot write",
            "partitions": 1,
            "free_bytes": None,
            "total_bytes": None,
        },
    ],
    "duties": [
        {
            "duty": "clean",
            "subject": "orders-0",
            "done": 50 * 1024**2,
            "total": 100 * 1024**2,
            "unit": "bytes",
            "since_ms": 11_000,
            "note": "pass 1",
        }
    ],
    "duties_left_out": 0,
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster({"metrics.listener": "127.0.0.1:0"}) as running:
        yield running


def address(cluster: Cluster) -> str:
    return urlsplit(cluster.metrics_url).netloc


def test_an_idle_node_says_that_nothing_is_under_way(cluster: Cluster) -> None:
    ran = run("log", "status", "--address", address(cluster))
    assert ran.code == 0
    assert "no long duty is under way" in ran.out
    assert "DIRECTORY" in ran.out


@pytest.fixture
def port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def test_the_node_of_the_bootstrap_is_asked(port: int) -> None:
    with Cluster({"metrics.listener": f"127.0.0.1:{port}"}) as cluster:
        ran = run("--format", "json", "log", "status", "--bootstrap", cluster.bootstrap)
        assert ran.code == 0, ran.err
        assert ran.json["directories"][0]["path"] == cluster.data


def test_another_node_at_the_metrics_port_is_never_taken_for_the_one_that_was_meant(
    cluster: Cluster,
) -> None:
    with Cluster() as meant:
        where = ("--bootstrap", meant.bootstrap, "--address", address(cluster))
        ran = run("log", "status", *where)
        assert ran.code == 1
        assert f"at {address(cluster)} answers node 1 of cluster" in ran.err
        assert ran.out == ""


def test_a_node_whose_metrics_port_is_not_known_says_how_to_name_it(cluster: Cluster) -> None:
    ran = run("log", "status", "--bootstrap", cluster.bootstrap)
    assert ran.code == 1
    assert "on a free port; --address HOST:PORT" in ran.err


def test_a_node_that_does_not_listen_yet_can_be_asked_by_its_address() -> None:
    ran = run("log", "status", "--bootstrap", "127.0.0.1:1")
    assert ran.code == 3
    assert "--address HOST:PORT alone asks a node" in ran.err


def test_the_address_goes_alone_beside_a_variable_with_another_cluster(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:1")
    assert run("log", "status", "--address", address(cluster)).code == 0


def test_a_node_without_metrics_says_so() -> None:
    with Cluster() as cluster:
        ran = run("log", "status", "--bootstrap", cluster.bootstrap)
    assert ran.code == 1
    assert "serves no metrics: its metrics.listener is empty" in ran.err


def test_json_is_what_the_node_says(cluster: Cluster) -> None:
    ran = run("log", "status", "--format", "json", "--address", address(cluster))
    assert json.loads(ran.out)["duties"] == []


def test_duties_are_shown_with_a_bar_a_rate_and_the_time_left() -> None:
    said = "\n".join(lines(STATUS, rates(STATUS, {})))
    assert (
        "clean  orders-0  [############............]  50.0 MB of 100.0 MB  1.0 MB/s  50 s" in said
    )
    assert "pass 1" in said
    assert "up 1:01" in said
    assert "failed: cannot write" in said
    assert "1.0 GB of 2.0 GB" in said


def test_a_rate_is_that_of_the_time_it_was_watched() -> None:
    seen: FirstSeen = {}
    rates(STATUS, seen)
    duty = {**STATUS["duties"][0], "done": 60 * 1024**2}
    later = {**STATUS, "now_ms": 63_000, "duties": [duty]}
    assert rates(later, seen)["clean", "orders-0"] == 5 * 1024**2


def test_nothing_that_listens_is_told_with_the_next_step() -> None:
    ran = run("log", "status", "--address", "127.0.0.1:1")
    assert ran.code == 3
    assert "nothing answers at 127.0.0.1:1" in ran.err
    assert "metrics.listener" in ran.err


def test_another_port_of_a_node_is_not_mistaken_for_this_one(cluster: Cluster) -> None:
    ran = run("log", "status", "--address", cluster.bootstrap)
    assert ran.code == 3
    assert "--address" in ran.err


@pytest.mark.parametrize("wrong", ["9404", "host:", "host:port", ""])
def test_what_is_no_address_is_refused(wrong: str) -> None:
    ran = run("log", "status", "--address", wrong)
    assert ran.code == 2
    assert "HOST:PORT" in ran.err


def test_what_is_not_compacted_is_shown_with_its_reason() -> None:
    broken = {"partition": "orders-0", "directory": "/disk1", "reason": "a batch is broken"}
    status = {**STATUS, "uncleanable": [broken], "uncleanable_left_out": 3, "strays": []}
    said = lines(status, {})
    (at,) = [place for place, line in enumerate(said) if line.startswith("NOT COMPACTED")]
    assert said[at + 1].split(maxsplit=1) == ["orders-0", "a batch is broken"]
    assert said[at + 2] == "... and 3 more"


def test_stray_directories_are_shown() -> None:
    status = {**STATUS, "strays": ["/disk1/old-0.0123-stray"], "strays_left_out": 0}
    said = lines(status, {})
    assert "/disk1/old-0.0123-stray" in said
    assert not [line for line in said if "more" in line]


def test_of_many_stray_directories_the_first_are_shown_and_how_many_more_there_are() -> None:
    strays = [f"/disk1/old-{number}.0123-stray" for number in range(STRAYS_SHOWN_MAX + 5)]
    said = lines({**STATUS, "strays": strays, "strays_left_out": 1_000}, {})
    assert [line for line in said if line.endswith("-stray")] == strays[:STRAYS_SHOWN_MAX]
    assert "... and 1,005 more" in said


def test_what_an_older_node_tells_of_strays_is_shown() -> None:
    status = {**STATUS, "strays": ["/disk1/old-0.0123-stray"]}
    assert "/disk1/old-0.0123-stray" in lines(status, {})
