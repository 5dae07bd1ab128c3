"""Consumer groups through real clients: every assignor, static members, both protocols, commits."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer
from client_adapters import MakeTopic
from cluster_sizes import ALSO_ON_THREE
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from group_members import BRISK_GROUPS, Member, everything, poll_until, shared, silent
from kafka import KafkaConsumer
from kafka.errors import GroupMaxSizeReachedError

from penstock.testing.cluster import Cluster

pytest_plugins = ["client_fixtures"]

PARTITIONS = 6
ASSIGNORS = ["range", "roundrobin", "cooperative-sticky"]


@pytest.fixture
def group() -> str:
    return f"group-{uuid4().hex[:12]}"


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic(PARTITIONS)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as entered:
        yield entered


@pytest.fixture
def small_groups() -> Iterator[Cluster]:
    """A node whose groups of either protocol have room for one member."""
    sizes = {"group.max.size": 1, "group.consumer.max.size": 1}
    with Cluster({**BRISK_GROUPS, **sizes}) as cluster:
        yield cluster


def produce(cluster: Cluster, topic: str, count: int) -> list[bytes]:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0}, logger=silent)
    values = [b"%d" % number for number in range(count)]
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    return values


def member(stack: ExitStack, cluster: Cluster, group: str, topic: str, **config: Any) -> Member:
    return stack.enter_context(closing(Member(cluster.bootstrap, group, [topic], **config)))


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_members_share_a_topic_under_every_assignor(
    disk_cluster: Cluster, group: str, topic: str, stack: ExitStack, assignor: str
) -> None:
    members = [
        member(stack, disk_cluster, group, topic, partition_assignment_strategy=assignor)
        for _ in range(3)
    ]
    poll_until(members, shared(members, topic, PARTITIONS))
    assert sorted(len(each.owned) for each in members) == [2, 2, 2]


@ALSO_ON_THREE
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_reads_every_record_once(
    disk_cluster: Cluster, group: str, topic: str, stack: ExitStack, protocol: str
) -> None:
    values = produce(disk_cluster, topic, 60)
    members = [member(stack, disk_cluster, group, topic, group_protocol=protocol) for _ in range(2)]
    poll_until(members, lambda: sum(len(each.got) for each in members) >= len(values))
    assert sorted(value for each in members for value in each.got) == sorted(values)


@ALSO_ON_THREE
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_partitions_of_a_member_that_leaves_go_to_the_others(
    disk_cluster: Cluster, group: str, topic: str, stack: ExitStack, protocol: str
) -> None:
    stays = member(stack, disk_cluster, group, topic, group_protocol=protocol)
    leaves = Member(disk_cluster.bootstrap, group, [topic], group_protocol=protocol)
    poll_until([stays, leaves], shared([stays, leaves], topic, PARTITIONS))
    leaves.close()
    poll_until([stays], lambda: stays.owned == everything(topic, PARTITIONS))


def test_a_new_member_takes_only_its_share_under_the_consumer_protocol(
    disk_cluster: Cluster, group: str, topic: str, stack: ExitStack
) -> None:
    first = member(stack, disk_cluster, group, topic, group_protocol="consumer")
    poll_until([first], lambda: first.owned == everything(topic, PARTITIONS))
    second = member(stack, disk_cluster, group, topic, group_protocol="consumer")
    poll_until([first, second], shared([first, second], topic, PARTITIONS))
    assert sum(len(gone) for gone in first.revoked) == PARTITIONS // 2


def test_a_new_member_takes_only_its_share_when_cooperating(
    disk_cluster: Cluster, group: str, topic: str, stack: ExitStack
) -> None:
    how = {"partition_assignment_strategy": "cooperative-sticky"}
    first = member(stack, disk_cluster, group, topic, **how)
    poll_until([first], lambda: first.owned == everything(topic, PARTITIONS))
    second = member(stack, disk_cluster, group, topic, **how)
    poll_until([first, second], shared([first, second], topic, PARTITIONS))
    assert sum(len(gone) for gone in first.revoked) == PARTITIONS // 2


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_static_member_comes_back_without_a_rebalance(
    disk_cluster: Cluster, group: str, topic: str, stack: ExitStack, protocol: str
) -> None:
    how: dict[str, Any] = {"group_protocol": protocol}
    stays = member(stack, disk_cluster, group, topic, group_instance_id="stays", **how)
    moves = Member(disk_cluster.bootstrap, group, [topic], group_instance_id="moves", **how)
    poll_until([stays, moves], shared([stays, moves], topic, PARTITIONS))
    rebalances, owned = stays.assigned_times, set(moves.owned)
    moves.close()
    back = member(stack, disk_cluster, group, topic, group_instance_id="moves", **how)
    poll_until([stays, back], lambda: bool(back.owned))
    assert (stays.assigned_times, back.owned) == (rebalances, owned)


def test_a_second_client_with_the_same_instance_id_fences_the_first(
    disk_cluster: Cluster, group: str, topic: str, stack: ExitStack
) -> None:
    first = member(stack, disk_cluster, group, topic, group_instance_id="one")
    poll_until([first], lambda: bool(first.owned))
    second = member(stack, disk_cluster, group, topic, group_instance_id="one")
    poll_until([first, second], lambda: bool(second.owned and first.fatal))
    assert "fenced by other consumer" in first.fatal[0]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_one_member_too_many_is_turned_away(
    small_groups: Cluster, group: str, stack: ExitStack, protocol: str
) -> None:
    topic = small_groups.create_topic("small", PARTITIONS)
    first = member(stack, small_groups, group, topic, group_protocol=protocol)
    poll_until([first], lambda: first.owned == everything(topic, PARTITIONS))
    second = member(stack, small_groups, group, topic, group_protocol=protocol)
    poll_until([first, second], lambda: bool(second.errors))
    assert "Consumer group has reached maximum size" in second.errors[0].str()
    assert (first.owned, second.owned) == (everything(topic, PARTITIONS), set())


def test_kafka_python_is_told_that_a_group_is_full(
    small_groups: Cluster, group: str, stack: ExitStack
) -> None:
    topic = small_groups.create_topic("small", PARTITIONS)
    first = member(stack, small_groups, group, topic)
    poll_until([first], lambda: bool(first.owned))
    second = KafkaConsumer(topic, bootstrap_servers=small_groups.bootstrap, group_id=group)
    with closing(second), pytest.raises(GroupMaxSizeReachedError):
        second.poll(10_000)


def test_a_pattern_is_resolved_by_the_server_under_the_consumer_protocol(
    disk_cluster: Cluster, group: str, topic: str, stack: ExitStack
) -> None:
    reader = stack.enter_context(
        closing(Member(disk_cluster.bootstrap, group, [f"^{topic}.*"], group_protocol="consumer"))
    )
    poll_until([reader], lambda: reader.owned == everything(topic, PARTITIONS))


@ALSO_ON_THREE
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_goes_on_where_it_committed(
    disk_cluster: Cluster, group: str, topic: str, stack: ExitStack, protocol: str
) -> None:
    produce(disk_cluster, topic, 12)
    first = Member(disk_cluster.bootstrap, group, [topic], group_protocol=protocol)
    poll_until([first], lambda: len(first.got) == 12)
    first.consumer.commit(asynchronous=False)
    first.close()
    produce(disk_cluster, topic, 6)
    second = member(stack, disk_cluster, group, topic, group_protocol=protocol)
    poll_until([second], lambda: len(second.got) >= 6)
    assert sorted(second.got) == [b"%d" % number for number in range(6)]


@ALSO_ON_THREE
def test_offsets_keep_their_note_and_leader_epoch(
    disk_cluster: Cluster, group: str, topic: str, stack: ExitStack
) -> None:
    settings = {"bootstrap.servers": disk_cluster.bootstrap, "group.id": group, "log_level": 0}
    consumer = stack.enter_context(closing(Consumer(settings, logger=silent)))
    place = TopicPartition(topic, 1, 0, metadata="a note", leader_epoch=0)
    consumer.commit(offsets=[place], asynchronous=False)
    (found,) = consumer.committed([TopicPartition(topic, 1)], 10)
    assert (found.offset, found.metadata, found.leader_epoch) == (0, "a note", 0)


def test_an_administrator_sees_describes_alters_and_deletes_a_group(
    disk_cluster: Cluster, group: str, topic: str
) -> None:
    reader = Member(disk_cluster.bootstrap, group, [topic])
    poll_until([reader], lambda: reader.owned == everything(topic, PARTITIONS))
    admin = AdminClient(
        {"bootstrap.servers": disk_cluster.bootstrap, "log_level": 0}, logger=silent
    )
    listed = admin.list_consumer_groups().result(10).valid
    assert group in [each.group_id for each in listed]
    described = admin.describe_consumer_groups([group])[group].result(10)
    assert [len(each.assignment.topic_partitions) for each in described.members] == [PARTITIONS]
    reader.close()
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 3)])
    admin.alter_consumer_group_offsets([wanted])[group].result(10)
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    found = admin.list_consumer_group_offsets([asked])[group].result(10)
    assert [each.offset for each in found.topic_partitions] == [3]
    admin.delete_consumer_groups([group])[group].result(10)
    assert group not in [each.group_id for each in admin.list_consumer_groups().result(10).valid]


def test_kafka_python_reads_in_a_group_and_commits(
    disk_cluster: Cluster, group: str, topic: str
) -> None:
    values = produce(disk_cluster, topic, 12)
    how = {
        "bootstrap_servers": disk_cluster.bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "consumer_timeout_ms": 10_000,
    }
    consumer = KafkaConsumer(topic, **how)
    got = [next(consumer).value for _ in values]
    consumer.commit()
    consumer.close()
    assert sorted(got) == sorted(values)
    produce(disk_cluster, topic, 1)
    again = KafkaConsumer(topic, **how)
    assert next(again).value == b"0"
    again.close()


@ALSO_ON_THREE
def test_aiokafka_members_share_and_commit(disk_cluster: Cluster, group: str, topic: str) -> None:
    values = produce(disk_cluster, topic, 24)

    async def read() -> list[bytes]:
        consumers = [
            AIOKafkaConsumer(
                topic,
                bootstrap_servers=disk_cluster.bootstrap,
                group_id=group,
                auto_offset_reset="earliest",
            )
            for _ in range(2)
        ]
        await asyncio.gather(*(each.start() for each in consumers))
        got: list[bytes] = []
        try:
            while len(got) < len(values):
                batches = await asyncio.gather(
                    *(each.getmany(timeout_ms=200) for each in consumers)
                )
                got += [r.value for batch in batches for rs in batch.values() for r in rs]
            for each in consumers:
                await each.commit()
        finally:
            await asyncio.gather(*(each.stop() for each in consumers))
        return got

    assert sorted(asyncio.run(asyncio.wait_for(read(), 60))) == sorted(values)
