"""Admin calls of real clients: topics, partitions, configs, records, cluster, log dirs."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from importlib import import_module
from typing import Any
from uuid import uuid4

import pytest
from client_adapters import WAIT_SECONDS_MAX, AioKafka, Confluent, KafkaPython, MakeTopic, Sent

from penstock.testing.cluster import Cluster

pytest_plugins = ["client_fixtures"]

library: Any = import_module("confluent_kafka.admin")  # its types say less than it exports
UNKNOWN_TOPIC = 3
TOPIC_EXISTS = 36


@pytest.fixture
def name() -> str:
    return f"admin-{uuid4().hex[:12]}"


# -- confluent-kafka


@pytest.fixture
def confluent(disk_cluster: Cluster) -> Any:
    return library.AdminClient({"bootstrap.servers": disk_cluster.bootstrap})


def _done(futures: dict[Any, Any]) -> Any:
    [future] = futures.values()
    return future.result(WAIT_SECONDS_MAX)


def _configs(admin: Any, kind: Any, name: str) -> Any:
    return _done(admin.describe_configs([library.ConfigResource(kind, name)]))


def _partitions(admin: Any, topic: str) -> int:
    return len(admin.list_topics(topic, timeout=WAIT_SECONDS_MAX).topics[topic].partitions)


def test_confluent_creates_and_deletes_topics(confluent: Any, name: str) -> None:
    _done(confluent.create_topics([library.NewTopic(name, 3, 1)]))
    assert _partitions(confluent, name) == 3
    _done(confluent.delete_topics([name]))
    assert name not in confluent.list_topics(timeout=WAIT_SECONDS_MAX).topics


def test_confluent_hears_that_a_topic_exists(confluent: Any, make_topic: MakeTopic) -> None:
    from confluent_kafka import KafkaException

    with pytest.raises(KafkaException) as refused:
        _done(confluent.create_topics([library.NewTopic(make_topic(), 1, 1)]))
    assert refused.value.args[0].code() == TOPIC_EXISTS


def test_confluent_hears_that_a_topic_is_unknown(confluent: Any, name: str) -> None:
    from confluent_kafka import KafkaException

    with pytest.raises(KafkaException) as refused:
        _done(confluent.delete_topics([name]))
    assert refused.value.args[0].code() == UNKNOWN_TOPIC


def test_confluent_describes_topics(confluent: Any, make_topic: MakeTopic) -> None:
    from confluent_kafka import TopicCollection

    topic = make_topic(2)
    described = _done(confluent.describe_topics(TopicCollection([topic])))
    assert (described.name, len(described.partitions)) == (topic, 2)
    assert described.partitions[0].leader.id == 1


def test_confluent_adds_partitions(confluent: Any, make_topic: MakeTopic) -> None:
    topic = make_topic()
    _done(confluent.create_partitions([library.NewPartitions(topic, 4)]))
    assert _partitions(confluent, topic) == 4


def test_confluent_changes_configs_one_by_one(confluent: Any, make_topic: MakeTopic) -> None:
    topic = make_topic(segment_ms=70_000)
    entry = library.ConfigEntry(
        "retention.ms", "5000", incremental_operation=library.AlterConfigOpType.SET
    )
    resource = library.ConfigResource(
        library.ResourceType.TOPIC, topic, incremental_configs=[entry]
    )
    _done(confluent.incremental_alter_configs([resource]))
    told = _done(
        confluent.describe_configs([library.ConfigResource(library.ResourceType.TOPIC, topic)])
    )
    assert (told["retention.ms"].value, told["segment.ms"].value) == ("5000", "70000")


def test_confluent_replaces_configs(confluent: Any, make_topic: MakeTopic) -> None:
    topic = make_topic(segment_ms=70_000)
    resource = library.ConfigResource(
        library.ResourceType.TOPIC, topic, set_config={"retention.ms": "5000"}
    )
    _done(confluent.alter_configs([resource]))
    told = _done(
        confluent.describe_configs([library.ConfigResource(library.ResourceType.TOPIC, topic)])
    )
    assert (told["retention.ms"].value, told["segment.ms"].value) == ("5000", "604800000")


def test_confluent_describes_the_broker(confluent: Any) -> None:
    told = _done(
        confluent.describe_configs([library.ConfigResource(library.ResourceType.BROKER, "1")])
    )
    assert told["node.id"].value == "1"
    assert told["node.id"].is_read_only


def test_confluent_deletes_records(
    confluent: Any, make_topic: MakeTopic, disk_cluster: Cluster
) -> None:
    from confluent_kafka import TopicPartition

    topic = make_topic()
    Confluent(disk_cluster).produce(topic, [Sent(b"v") for _ in range(10)])
    _done(confluent.delete_records([TopicPartition(topic, 0, 4)]))
    assert Confluent(disk_cluster).watermarks(topic) == (4, 10)
    assert Confluent(disk_cluster).consume(topic, 1, offset=4)[0].offset == 4


def test_confluent_describes_the_cluster(confluent: Any) -> None:
    described = confluent.describe_cluster().result(WAIT_SECONDS_MAX)
    assert [node.id for node in described.nodes] == [1]
    assert described.controller.id == 1


def test_confluent_lists_offsets(
    confluent: Any, make_topic: MakeTopic, disk_cluster: Cluster
) -> None:
    from confluent_kafka import TopicPartition

    topic = make_topic()
    records = [Sent(b"v", timestamp=1_700_000_000_000 + place) for place in (5, 9, 7)]
    Confluent(disk_cluster).produce(topic, records)
    place = TopicPartition(topic, 0)
    found = [
        _done(confluent.list_offsets({place: spec})).offset
        for spec in (
            library.OffsetSpec.earliest(),
            library.OffsetSpec.latest(),
            library.OffsetSpec.max_timestamp(),
        )
    ]
    assert found == [0, 3, 1]


def test_confluent_waits_for_fetch_min_bytes_no_longer_than_fetch_max_wait(
    make_topic: MakeTopic, disk_cluster: Cluster
) -> None:
    topic = make_topic()
    client = Confluent(disk_cluster)
    client.produce(topic, [Sent(b"v")])
    settings = {"fetch.min.bytes": 100_000, "fetch.wait.max.ms": 50}
    assert client.consume(topic, 1, **settings)[0].value == b"v"


# -- kafka-python


@pytest.fixture
def kafka_python(disk_cluster: Cluster) -> Iterator[Any]:
    from kafka import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=disk_cluster.bootstrap)
    yield admin
    admin.close()


def test_kafka_python_creates_grows_and_deletes_topics(kafka_python: Any, name: str) -> None:
    from kafka.admin import NewPartitions, NewTopic

    kafka_python.create_topics([NewTopic(name, 2, 1)])
    kafka_python.create_partitions({name: NewPartitions(3)})
    [described] = kafka_python.describe_topics([name])
    assert len(described["partitions"]) == 3
    kafka_python.delete_topics([name])
    assert name not in kafka_python.list_topics()


def test_kafka_python_hears_that_a_topic_exists(kafka_python: Any, make_topic: MakeTopic) -> None:
    from kafka.admin import NewTopic
    from kafka.errors import TopicAlreadyExistsError

    with pytest.raises(TopicAlreadyExistsError):
        kafka_python.create_topics([NewTopic(make_topic(), 1, 1)])


@pytest.mark.parametrize("incremental", [True, False], ids=["incremental", "replacing"])
def test_kafka_python_changes_configs(
    kafka_python: Any, make_topic: MakeTopic, incremental: bool
) -> None:
    from kafka.admin import ConfigResource, ConfigResourceType

    topic = make_topic(segment_ms=70_000)
    wanted = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "5000"})
    kafka_python.alter_configs([wanted], incremental=incremental)
    asked = ConfigResource(ConfigResourceType.TOPIC, topic)
    told = str(kafka_python.describe_configs([asked], config_filter="all"))
    assert "5000" in told
    assert ("70000" in told) or not incremental


def test_kafka_python_deletes_records(
    kafka_python: Any, make_topic: MakeTopic, disk_cluster: Cluster
) -> None:
    from kafka import TopicPartition

    topic = make_topic()
    KafkaPython(disk_cluster).produce(topic, [Sent(b"v") for _ in range(10)])
    kafka_python.delete_records({TopicPartition(topic, 0): 4})
    assert KafkaPython(disk_cluster).watermarks(topic) == (4, 10)


def test_kafka_python_describes_cluster_quorum_features_and_log_dirs(
    kafka_python: Any, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    assert kafka_python.describe_cluster()["controller_id"] == 1
    assert "__cluster_metadata" in str(kafka_python.describe_metadata_quorum())
    assert "metadata.version" in str(kafka_python.describe_features())
    assert topic in str(kafka_python.describe_log_dirs())
    assert topic in str(kafka_python.describe_topic_partitions([topic]))
    assert topic in str(kafka_python.list_config_resources())


# -- aiokafka


def _aio(cluster: Cluster, work: Callable[[Any], Awaitable[Any]]) -> Any:
    async def bounded() -> Any:
        from aiokafka.admin import AIOKafkaAdminClient

        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        await admin.start()
        try:
            return await asyncio.wait_for(work(admin), WAIT_SECONDS_MAX)
        finally:
            await admin.close()

    return asyncio.run(bounded())


def test_aiokafka_creates_grows_and_deletes_topics(disk_cluster: Cluster, name: str) -> None:
    from aiokafka.admin import NewPartitions, NewTopic

    async def work(admin: Any) -> tuple[Any, list[str]]:
        await admin.create_topics([NewTopic(name, 2, 1)])
        await admin.create_partitions({name: NewPartitions(3)})
        [described] = await admin.describe_topics([name])
        await admin.delete_topics([name])
        return described, await admin.list_topics()

    described, left = _aio(disk_cluster, work)
    assert len(described["partitions"]) == 3
    assert name not in left


def test_aiokafka_changes_configs(disk_cluster: Cluster, make_topic: MakeTopic) -> None:
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    topic = make_topic()

    async def work(admin: Any) -> str:
        wanted = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "54321"})
        await admin.alter_configs([wanted])
        return str(await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))

    assert "54321" in _aio(disk_cluster, work)


def test_aiokafka_deletes_records(disk_cluster: Cluster, make_topic: MakeTopic) -> None:
    from aiokafka import TopicPartition
    from aiokafka.admin import RecordsToDelete

    topic = make_topic()
    AioKafka(disk_cluster).produce(topic, [Sent(b"v") for _ in range(10)])
    place = TopicPartition(topic, 0)
    wanted = {place: RecordsToDelete(before_offset=4)}
    low = _aio(disk_cluster, lambda admin: admin.delete_records(wanted))
    assert low == {place: 4}
    assert AioKafka(disk_cluster).watermarks(topic) == (4, 10)


def test_aiokafka_describes_the_cluster(disk_cluster: Cluster) -> None:
    described = _aio(disk_cluster, lambda admin: admin.describe_cluster())
    assert described["controller_id"] == 1


# -- without auto-creation


@pytest.fixture(scope="module")
def strict_cluster() -> Iterator[Cluster]:
    with Cluster({"auto.create.topics.enable": "false"}) as cluster:
        yield cluster


def test_an_unknown_topic_stays_unknown_where_topics_are_not_made(
    strict_cluster: Cluster,
) -> None:
    admin = library.AdminClient({"bootstrap.servers": strict_cluster.bootstrap})
    told = admin.list_topics("zork", timeout=WAIT_SECONDS_MAX).topics["zork"]
    assert told.error is not None
    assert told.error.code() == UNKNOWN_TOPIC
