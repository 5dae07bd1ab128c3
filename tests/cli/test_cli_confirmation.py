"""Destructive commands ask first; without a terminal they need --yes."""

from collections.abc import Iterator

import pytest
from cli_running import Ran, run, run_at_terminal

from penstock.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    name = "".join(c if c.isalnum() else "-" for c in str(request.node.name))
    return cluster.create_topic(name, partitions=1)


def topics(cluster: Cluster) -> list[str]:
    rows = run("--bootstrap", cluster.bootstrap, "topic", "list", "--format", "json").json
    return [row["name"] for row in rows]


def delete(cluster: Cluster, topic: str, typed: bytes) -> Ran:
    return run_at_terminal("--bootstrap", cluster.bootstrap, "topic", "delete", topic, typed=typed)


@pytest.mark.parametrize(
    "command",
    [
        ["topic", "delete", "a"],
        ["topic", "delete-records", "a", "--before", "end"],
        ["group", "delete", "a"],
        ["group", "delete-offsets", "a", "--topic", "b"],
        ["broker", "unregister", "7"],
    ],
)
def test_without_a_terminal_it_needs_yes(cluster: Cluster, command: list[str]) -> None:
    run("--bootstrap", cluster.bootstrap, "topic", "create", "a", "--if-not-exists")
    run("--bootstrap", cluster.bootstrap, "produce", "a", stdin=b"x\n")
    ran = run("--bootstrap", cluster.bootstrap, *command)
    assert ran.code == 2
    assert "nothing was changed; --yes confirms" in ran.err
    assert cluster.bootstrap in ran.err


@pytest.mark.parametrize("typed", [b"y\n", b"yes\n", b" Y \n"])
def test_a_yes_does_it(cluster: Cluster, topic: str, typed: bytes) -> None:
    ran = delete(cluster, topic, typed)
    assert (ran.code, ran.out) == (0, f"{topic}: deleted\n")
    assert f"Delete 1 topic with all records at {cluster.bootstrap}: {topic}? [y/N]" in ran.err
    assert topic not in topics(cluster)


@pytest.mark.parametrize("typed", [b"n\n", b"\n", b"", b"maybe\n"])
def test_everything_else_does_not(cluster: Cluster, topic: str, typed: bytes) -> None:
    ran = delete(cluster, topic, typed)
    assert (ran.code, ran.out) == (1, "")
    assert "nothing was changed" in ran.err
    assert topic in topics(cluster)
