"""`penstock quota`: what is set is listed, removed, and rejected with the way out."""

import json
from collections.abc import Iterator

import pytest
from cli_running import Ran, run

from penstock.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def quota(cluster: Cluster, *arguments: str) -> Ran:
    return run("--bootstrap", cluster.bootstrap, "quota", *arguments)


def listed(cluster: Cluster) -> list[tuple[object, ...]]:
    shown = json.loads(quota(cluster, "list", "--format", "json").out)
    return [
        (row["user"], row["client"], row["address"], row["quota"], row["value"]) for row in shown
    ]


def test_a_quota_that_was_set_is_listed_until_it_is_removed(cluster: Cluster) -> None:
    ran = quota(cluster, "set", "producer_byte_rate=1e6", "--user", "ann", "--every-client")
    assert (ran.code, ran.out) == (
        0,
        "producer_byte_rate of every other client, user ann: set\n",
    )
    assert listed(cluster) == [("ann", "(every other)", None, "producer_byte_rate", 1e6)]
    assert quota(cluster, "remove", "--user", "ann", "--every-client").code == 0
    assert listed(cluster) == []


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("set", "producer_byte_rate=1"), 2, "for whom? Add --user"),
        (("set", "speed=1", "--user", "ann"), 2, "there is no quota speed"),
        (("set", "producer_byte_rate=fast", "--user", "ann"), 2, "must be a number"),
        (("set", "producer_byte_rate=1", "--user", "a", "--every-user"), 2, "choose one"),
        (("set", "producer_byte_rate=-1", "--user", "ann"), 1, "must be greater than 0"),
        (("set", "producer_byte_rate=1", "--address", "10.0.0.7"), 1, "Invalid configuration key"),
        (("remove", "producer_byte_rate", "--user", "ann"), 1, "has no quota producer_byte_rate"),
    ],
)
def test_a_wrong_command_says_what_is_wrong(
    cluster: Cluster, arguments: tuple[str, ...], code: int, text: str
) -> None:
    ran = quota(cluster, *arguments)
    assert (ran.code, listed(cluster)) == (code, [])
    assert text in ran.err
