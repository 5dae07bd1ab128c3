"""Keywords of other clients and of earlier releases: one sentence names the right one."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import penstock
from penstock import sync as blocking
from penstock.client.failures import ClientError
from penstock.testing import Cluster, assert_records

NOWHERE = "127.0.0.1:1"
make_consumer: Callable[..., Any] = blocking.Consumer


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: penstock.Producer(bootstrap_servers=NOWHERE),  # type: ignore[call-overload]
            "Producer takes no 'bootstrap_servers'; it is called bootstrap='host:port'",
        ),
        (
            lambda: blocking.Producer(bootstrap=NOWHERE, linger_ms=5),  # type: ignore[call-overload]
            "Producer takes no 'linger_ms'; it is a setting: Producer({'linger.ms': ...}, ...)",
        ),
        (
            lambda: penstock.Consumer(bootstrap=NOWHERE, group_id="g"),  # type: ignore[call-overload]
            "Consumer takes no 'group_id'; it is called group",
        ),
        (
            lambda: make_consumer(bootstrap=NOWHERE, topic="orders"),
            "Consumer takes no 'topic'; it is called topics=['name']",
        ),
        (
            lambda: make_consumer(bootstrap=NOWHERE, wibble=1),
            "Consumer takes no 'wibble'; known: assign, bootstrap, group, ",
        ),
        (
            lambda: penstock.Admin(NOWHERE, timeout_ms=5),  # type: ignore[arg-type]
            "Admin takes no 'timeout_ms'; it is called timeout_s, in seconds",
        ),
        (
            lambda: blocking.Admin(NOWHERE, api_timeout_ms=5),  # type: ignore[arg-type]
            "Admin takes no 'api_timeout_ms'; it is called api_timeout_s, in seconds",
        ),
        (
            lambda: make_consumer(bootstrap=NOWHERE).take(1, within=5),
            "take() takes no 'within'; it is called timeout_s, in seconds",
        ),
        (
            lambda: make_consumer(bootstrap=NOWHERE).batches(within_s=5),
            "batches() takes no 'within_s'; it is called timeout_s, in seconds",
        ),
        (
            lambda: blocking.Admin(bootstrap=NOWHERE).create_topics(["foo"]),  # type: ignore[list-item]
            "create_topics() takes NewTopics, and 'foo' is none: create_topics([NewTopic('foo'",
        ),
        (
            lambda: blocking.Admin(bootstrap=NOWHERE).delete_topics("foo"),
            "delete_topics() takes a list of names, not one name: delete_topics(['foo'])",
        ),
        (
            lambda: blocking.Admin(bootstrap=NOWHERE).groups.delete("billing"),
            "groups.delete() takes a list of names, not one name: groups.delete(['billing'])",
        ),
        (
            lambda: assert_records(NOWHERE, "t", "one"),
            "expected is a list of values, or of pairs of key and value, not one value: "
            "assert_records(cluster, 't', ['one'])",
        ),
        (
            lambda: Cluster().advance(5),  # type: ignore[arg-type]
            "name the unit: advance(seconds=5), or minutes=, days=",
        ),
    ],
)
def test_the_error_says_what_is_meant(make: Callable[[], object], said: str) -> None:
    with pytest.raises(TypeError) as refused:
        make()
    assert str(refused.value).startswith(said)


def test_a_cluster_does_not_take_keys_that_no_broker_has() -> None:
    with pytest.raises(ValueError, match=r"num\.partition; did you mean num\.partitions\?"):
        Cluster({"num.partition": 3})


def test_a_consumer_without_topics_says_so_instead_of_waiting() -> None:
    with make_consumer(bootstrap=NOWHERE, group="g") as consumer:
        with pytest.raises(ClientError, match=r"no topics to read.*topics=\['orders'\]"):
            next(iter(consumer))
        with pytest.raises(ClientError, match="no topics to read"):
            consumer.take(1, 0.1)


def test_an_asyncio_consumer_without_topics_says_so_instead_of_waiting() -> None:
    async def read() -> None:
        async with penstock.Consumer(bootstrap=NOWHERE, group="g") as consumer:
            async for _ in consumer.batches():
                pass

    with pytest.raises(ClientError, match="no topics to read"):
        asyncio.run(read())
