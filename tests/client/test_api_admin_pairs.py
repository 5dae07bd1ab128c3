"""A pair of a topic and a number is a partition, wherever Admin takes one."""

import asyncio
from typing import Any

import pytest
from consuming import filled_topic, fresh_group
from producing import run

from penstock import sync as blocking
from penstock.client.admin.aio import Admin
from penstock.client.admin.coordinator_values import AbortMarker
from penstock.client.admin.part import partition_of
from penstock.client.values import At
from penstock.errors import KafkaError
from penstock.model import TopicPartition
from penstock.testing.external_cluster import ClusterLike


async def facts(admin: Any, topic: str, group: str) -> dict[str, Any]:
    """What Admin answers, asked with plain pairs; of both clients."""

    async def told(answer: Any) -> Any:
        return await answer if asyncio.iscoroutine(answer) else answer

    pair = (topic, 0)
    return {
        "offsets": await told(admin.offsets({pair: int(At.END)})),
        "delete_records": await told(admin.delete_records({pair: 1})),
        "elect_leaders": await told(admin.elect_leaders([pair])),
        "commit": await told(admin.groups.commit(group, {pair: 2})),
        "delete_offsets": await told(admin.groups.delete_offsets(group, [pair])),
        "reassignments": await told(admin.reassignments.list_all([pair])),
        "alter": await told(admin.reassignments.alter({pair: None})),
        "log_dirs": await told(admin.log_dirs.describe(partitions=[pair])),
        "producers": await told(admin.transactions.producers([pair])),
    }


@pytest.mark.parametrize("kind", [Admin, blocking.Admin])
def test_admin_takes_plain_pairs(penstock_cluster: ClusterLike, kind: Any) -> None:
    topic, group = filled_topic(penstock_cluster, 3), fresh_group()
    place = TopicPartition(topic, 0)

    async def story() -> dict[str, Any]:
        if kind is Admin:
            async with Admin(bootstrap=penstock_cluster.bootstrap) as admin:
                return await facts(admin, topic, group)
        with blocking.Admin(bootstrap=penstock_cluster.bootstrap) as admin:
            return await facts(admin, topic, group)

    found = run(story())
    assert found["offsets"][place].offset == 3
    assert found["delete_records"] == {place: 1}
    assert found["commit"] == found["delete_offsets"] == {place: None}
    assert found["reassignments"] == {}
    assert [list(found[name]) for name in ("elect_leaders", "alter", "producers")] == [[place]] * 3
    (directories,) = found["log_dirs"].values()
    (told,) = directories.values()
    assert list(told.replicas) == [place]
    for name in ("offsets", "producers", "delete_records"):
        assert all(type(each) is TopicPartition for each in found[name]), name


def test_an_abort_marker_takes_a_plain_pair(penstock_cluster: ClusterLike) -> None:
    pair: Any = (filled_topic(penstock_cluster, 1), 0)
    with blocking.Admin(bootstrap=penstock_cluster.bootstrap) as admin:
        told = admin.transactions.abort(AbortMarker(pair, 77_777, 0, 0))
    assert told is None or isinstance(told, KafkaError)


@pytest.mark.parametrize("said", ["orders-0", ("orders",), (0, "orders"), ("orders", True), None])
def test_what_is_no_pair_is_said(said: Any) -> None:
    with pytest.raises(TypeError, match=r"a partition is a pair such as \('orders', 0\)"):
        partition_of(said)
