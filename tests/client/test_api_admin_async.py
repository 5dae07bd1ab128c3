"""The admin client for asyncio: the same calls, one thread, and cancelling does no harm."""

import asyncio
import inspect
import os
import threading
from typing import Any

import pytest
from admin_facts import unused_name
from admin_server import AdminServer

from penstock import errors
from penstock.client.admin.aio import Admin
from penstock.client.admin.blocking import Admin as BlockingAdmin
from penstock.client.failures.kinds import ClientClosed, TimedOut, UsedAfterFork
from penstock.client.values import NewTopic
from penstock.testing.cluster import Cluster
from penstock.wire.messages import k75_describe_topic_partitions as k75

PARTS = (
    "groups",
    "transactions",
    "reassignments",
    "log_dirs",
    "quorum",
    "features",
    "acls",
    "quotas",
    "scram",
    "tokens",
)
BLOCKING_ONLY = {"within", "nodes", "routes", "limit", *PARTS}
PAGES = 75


def _methods(of: object) -> dict[str, inspect.Signature]:
    cls = type(of)
    return {
        name: inspect.signature(getattr(cls, name))
        for name in dir(cls)
        if not name.startswith("_") and callable(getattr(cls, name))
    }


def _compared(blocking: object, awaited: object) -> None:
    wanted = {k: v for k, v in _methods(blocking).items() if k not in BLOCKING_ONLY}
    assert _methods(awaited) == wanted
    for name in wanted:
        assert inspect.iscoroutinefunction(getattr(type(awaited), name)), name


def test_the_two_admins_have_the_same_calls() -> None:
    blocking, awaited = BlockingAdmin(bootstrap="127.0.0.1:1"), Admin(bootstrap="127.0.0.1:1")
    _compared(blocking, awaited)
    assert inspect.signature(BlockingAdmin) == inspect.signature(Admin)


@pytest.mark.parametrize("part", PARTS)
def test_their_parts_have_the_same_calls(part: str) -> None:
    blocking, awaited = BlockingAdmin(bootstrap="127.0.0.1:1"), Admin(bootstrap="127.0.0.1:1")
    _compared(getattr(blocking, part), getattr(awaited, part))


def test_a_topic_is_created_described_and_deleted(penstock_cluster: Cluster) -> None:
    async def story() -> None:
        async with Admin(bootstrap=penstock_cluster.bootstrap) as client:
            name = unused_name("awaited")
            created = await client.create_topics([NewTopic(name, 2, 1)])
            assert not isinstance(created[name], errors.KafkaError)
            found = await client.describe_topic_partitions([name])
            assert not isinstance(found[name], errors.KafkaError)
            assert await client.delete_topics([name]) == {name: None}

    asyncio.run(story())


def test_many_tasks_use_one_thread(penstock_cluster: Cluster) -> None:
    threads: set[int] = set()

    async def story() -> None:
        async with Admin(bootstrap=penstock_cluster.bootstrap) as client:
            here = threading.get_ident()
            plain = client._blocking.nodes.refresh

            def noted() -> Any:
                threads.add(threading.get_ident())
                return plain()

            client._blocking.nodes.refresh = noted  # type: ignore[method-assign]
            await asyncio.gather(*(client.describe_cluster() for _ in range(20)))
            assert here not in threads

    asyncio.run(story())
    assert len(threads) == 1


async def _waits(server: AdminServer, client: Admin) -> "asyncio.Task[Any]":
    """A call that has no answer, once the server has got it."""
    task = asyncio.create_task(client.describe_topic_partitions(["orders"]))
    await asyncio.to_thread(server.came.acquire)
    return task


def test_a_cancelled_call_leaves_the_client_usable_at_once() -> None:
    async def story(server: AdminServer) -> None:
        async with Admin(bootstrap=server.bootstrap) as client:
            task = await _waits(server, client)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            server.answer(PAGES, lambda _: k75.DescribeTopicPartitionsResponse())
            async with asyncio.timeout(10):  # far less than a request may take
                assert list(await client.describe_topic_partitions(["orders"])) == ["orders"]

    with AdminServer({PAGES: lambda _: None}) as server:
        asyncio.run(story(server))


def test_a_call_that_waits_for_its_turn_may_be_cancelled() -> None:
    async def story(server: AdminServer) -> None:
        async with Admin(bootstrap=server.bootstrap) as client:
            first = await _waits(server, client)
            second = asyncio.create_task(client.list_topics())
            await asyncio.wait([second], timeout=0)  # it has begun
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            assert not first.done()
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first

    with AdminServer({PAGES: lambda _: None}) as server:
        asyncio.run(story(server))


def test_asyncios_timeout_bounds_a_call() -> None:
    async def story(server: AdminServer) -> None:
        async with Admin(bootstrap=server.bootstrap) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await client.describe_topic_partitions(["orders"])
            assert await client.list_topics() == []

    with AdminServer({PAGES: lambda _: None}) as server:
        asyncio.run(story(server))


def test_its_own_limit_bounds_a_call() -> None:
    async def story(server: AdminServer) -> None:
        async with Admin(bootstrap=server.bootstrap, api_timeout_s=0.15) as client:
            with pytest.raises(TimedOut, match="150 ms"):
                await client.describe_topic_partitions(["orders"])
            assert await client.list_topics() == []

    with AdminServer({PAGES: lambda _: None}) as server:
        asyncio.run(story(server))


def test_closing_ends_what_is_under_way_and_what_waits() -> None:
    async def story(server: AdminServer) -> None:
        client = Admin(bootstrap=server.bootstrap)
        first = await _waits(server, client)
        second = asyncio.create_task(client.list_topics())
        await asyncio.wait([second], timeout=0)  # it has begun
        async with asyncio.timeout(10):
            await client.close()
            await client.close()
        for task in (first, second):
            with pytest.raises(ClientClosed):
                await task
        with pytest.raises(ClientClosed):
            await client.list_topics()

    with AdminServer({PAGES: lambda _: None}) as server:
        asyncio.run(story(server))


def test_a_client_from_before_a_fork_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        client = Admin(bootstrap="127.0.0.1:1")
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(UsedAfterFork):
            await client.list_topics()

    asyncio.run(story())
