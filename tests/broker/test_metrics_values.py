"""What the metrics say after clients have done something, and that it is the right amount."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from metrics_asking import OPENMETRICS, SETTINGS, Page, scrape

from penstock.broker.metrics import snapshot
from penstock.testing import Cluster

TOPIC = "kafka_server_brokertopicmetrics_"
REQUESTS = "kafka_network_requestmetrics_requests_total"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(SETTINGS) as running:
        yield running


def produce(cluster: Cluster, topic: str, records: int, **settings: object) -> None:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "linger.ms": 0,
            "batch.num.messages": 1,
            **settings,
        }
    )
    for number in range(records):
        producer.produce(topic, value=b"x" * 100, key=str(number), partition=0)
    assert producer.flush(10) == 0


def consume(cluster: Cluster, topic: str, records: int, group: str = "readers") -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    got = 0
    while got < records:
        message = consumer.poll(10)
        assert message is not None and not message.error(), message
        got += 1
    consumer.commit(asynchronous=False)
    consumer.close()


def requests(page: Page, request: str) -> float:
    return sum(
        value
        for (name, labels), value in page.values.items()
        if name == REQUESTS and ("request", request) in labels
    )


def test_records_and_bytes_are_counted_for_their_topic_and_for_all(cluster: Cluster) -> None:
    cluster.create_topic("orders")
    cluster.create_topic("other")
    before = scrape(cluster)
    produce(cluster, "orders", 7)
    after = scrape(cluster)
    log = cluster.broker.replicas.by_name["orders"][0].log
    for labels in ({}, {"topic": "orders"}):
        assert after(f"{TOPIC}messagesin_total", **labels) == 7
        assert after(f"{TOPIC}bytesin_total", **labels) == log.size > 700
        assert before(f"{TOPIC}messagesin_total", **labels) == 0
    assert after(f"{TOPIC}messagesin_total", topic="other") == 0
    assert after("kafka_log_log_logendoffset", topic="orders") == 7
    assert after("kafka_log_log_size", topic="orders") == log.size


def test_each_produce_request_is_counted_and_timed_once(cluster: Cluster) -> None:
    cluster.create_topic("orders")
    produce(cluster, "orders", 20)
    page = scrape(cluster)
    sent = requests(page, "Produce")
    assert 1 <= sent <= 20
    assert page("kafka_network_requestmetrics_totaltimems_count", request="Produce") == sent
    assert page("penstock_request_seconds_count", request="Produce") == sent
    assert (
        page("penstock_produce_memo_hits_total") + page("penstock_produce_memo_misses_total")
        == sent
    )
    assert page(f"{TOPIC}totalproducerequests_total", topic="orders") == 20


@pytest.mark.each_value
@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("durability", ["fsync", "page-cache"])
def test_requests_are_timed_once_however_they_are_acknowledged(acks: str, durability: str) -> None:
    with Cluster({**SETTINGS, "log.durability": durability}) as cluster:
        cluster.create_topic("orders", partitions=3)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": acks, "linger.ms": 0})
        for number in range(300):
            producer.produce("orders", value=b"x", partition=number % 3)
        assert producer.flush(10) == 0
        consume(cluster, "orders", 300)
        page = scrape(cluster)
    sent = requests(page, "Produce")
    assert sent > 0
    assert page("kafka_network_requestmetrics_totaltimems_count", request="Produce") == sent
    assert page(f"{TOPIC}messagesin_total", topic="orders") == 300
    assert (
        page("kafka_server_delayedoperationpurgatory_purgatorysize", delayedoperation="Produce")
        == 0
    )


def test_what_consumers_get_is_counted(cluster: Cluster) -> None:
    cluster.create_topic("orders")
    produce(cluster, "orders", 5)
    size = cluster.broker.replicas.by_name["orders"][0].log.size
    consume(cluster, "orders", 5)
    page = scrape(cluster)
    assert page(f"{TOPIC}bytesout_total", topic="orders") >= size
    assert page(f"{TOPIC}bytesout_total") == page(f"{TOPIC}bytesout_total", topic="orders")
    assert page(f"{TOPIC}totalfetchrequests_total", topic="orders") >= 1
    assert requests(page, "Fetch") == requests(page, "FetchConsumer") >= 1
    assert requests(page, "OffsetCommit") >= 1
    assert page("kafka_network_requestmetrics_totaltimems_count", request="JoinGroup") >= 1
    assert page("kafka_coordinator_group_groupmetadatamanager_numgroups") == 1
    assert page("kafka_coordinator_group_groupmetadatamanager_numoffsets") == 1
    assert page("kafka_server_group_coordinator_metrics_group_count", protocol="classic") == 1


def test_errors_are_counted_by_api_and_name(cluster: Cluster) -> None:
    cluster.create_topic("small", config={"max.message.bytes": 200})
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
    failures: list[object] = []
    producer.produce(
        "small", value=b"x" * 1_000, on_delivery=lambda error, _: failures.append(error)
    )
    producer.flush(10)
    assert failures[0] is not None
    page = scrape(cluster)
    errors = "kafka_network_requestmetrics_errors_total"
    assert page(errors, request="Produce", error="MESSAGE_TOO_LARGE") == 1
    assert page(f"{TOPIC}bytesrejected_total", topic="small") > 1_000
    # A batch that is too large is the client's doing: as in Kafka it is no failed request.
    assert page(f"{TOPIC}failedproducerequests_total", topic="small") == 0


def test_errors_deep_in_an_answer_are_counted(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    cluster.create_topic("there")
    for future in admin.delete_topics(["nowhere"]).values():
        with pytest.raises(KafkaException):
            future.result()
    page = scrape(cluster)
    errors = "kafka_network_requestmetrics_errors_total"
    assert page(errors, request="DeleteTopics", error="UNKNOWN_TOPIC_OR_PARTITION") == 1


def test_connections_and_their_bytes_are_counted(cluster: Cluster) -> None:
    cluster.create_topic("orders")
    before = scrape(cluster)
    produce(cluster, "orders", 3)
    after = scrape(cluster)
    sockets = "kafka_server_socket_server_metrics_"

    def grown(name: str) -> float:
        return after(sockets + name, listener="PLAINTEXT") - before(
            sockets + name, listener="PLAINTEXT"
        )

    assert grown("connection_creation_total") >= 1
    assert grown("incoming_byte_total") > 300
    assert grown("outgoing_byte_total") > 100
    opened = after(f"{sockets}connection_creation_total", listener="PLAINTEXT")
    ended = after(f"{sockets}connection_close_total", listener="PLAINTEXT")
    assert opened - ended == after(f"{sockets}connection_count", listener="PLAINTEXT")


def test_the_lag_of_a_group_is_told_by_topic(cluster: Cluster) -> None:
    for topic in ("orders", "payments"):
        cluster.create_topic(topic, partitions=2)
        produce(cluster, topic, 7)
        consume(cluster, topic, 7)
    assert scrape(cluster)("penstock_consumer_group_lag", group="readers", topic="orders") == 0
    produce(cluster, "orders", 3)
    page = scrape(cluster)
    assert page("penstock_consumer_group_lag", group="readers", topic="orders") == 3
    assert page("penstock_consumer_group_lag", group="readers", topic="payments") == 0
    assert page("penstock_metrics_left_out", what="group_lags") == 0


def test_of_too_many_lags_some_are_left_out_and_counted(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "LAGS_MAX", 1)
    cluster.create_topic("orders")
    produce(cluster, "orders", 1)
    for group in ("a", "b", "c"):
        consume(cluster, "orders", 1, group)
    page = scrape(cluster)
    told = [name for name, _labels in page.values if name == "penstock_consumer_group_lag"]
    assert len(told) == 1
    assert page("penstock_metrics_left_out", what="group_lags") == 2


def test_totals_do_not_fall_when_a_topic_is_deleted(cluster: Cluster) -> None:
    cluster.create_topic("orders")
    produce(cluster, "orders", 4)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_topics(["orders"])["orders"].result()
    page = scrape(cluster)
    assert page(f"{TOPIC}messagesin_total") == 4
    assert page.get(f"{TOPIC}messagesin_total", topic="orders") == 0
    assert page("penstock_deletions_waiting") == 1
    assert page("penstock_duties", duty="delete") == 1


def test_partitions_are_told_one_by_one_only_where_they_are_asked_for(cluster: Cluster) -> None:
    for topic in ("orders", "payments"):
        cluster.create_topic(topic, partitions=3)
    size = "kafka_log_log_size"
    assert scrape(cluster)(size, topic="orders") == 0
    page = scrape(cluster, "?partitions=orders")
    assert [page(size, topic="orders", partition=str(index)) for index in range(3)] == [0, 0, 0]
    assert page(size, topic="payments") == 0
    every = scrape(cluster, "?partitions=*")
    assert (
        every("kafka_cluster_partition_laststableoffsetlag", topic="payments", partition="2") == 0
    )
    assert (size, (("topic", "orders"),)) not in every.values


def test_the_cluster_and_the_node_are_described(cluster: Cluster) -> None:
    cluster.create_topic("orders", partitions=2)
    page = scrape(cluster)
    assert page("kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert page("kafka_controller_kafkacontroller_globaltopiccount") == 1
    assert page("kafka_controller_kafkacontroller_globalpartitioncount") == 2
    assert page("kafka_controller_kafkacontroller_offlinepartitionscount") == 0
    assert page("kafka_server_replicamanager_leadercount") == 2
    assert page("kafka_server_replicamanager_underreplicatedpartitions") == 0
    assert page("kafka_server_kafkaserver_brokerstate") == 3
    assert page("kafka_server_raft_metrics_current_leader") == cluster.broker.node_id
    assert page("penstock_directory_partitions", logdirectory=cluster.data) == 2
    assert page("process_cpu_seconds_total") > 0
    assert page("process_resident_memory_bytes") > 1e6
    assert 0 <= page("kafka_network_socketserver_networkprocessoravgidle_percent") <= 1


def test_both_formats_tell_the_same(cluster: Cluster) -> None:
    cluster.create_topic("orders")
    produce(cluster, "orders", 2)
    plain, open_metrics = scrape(cluster), scrape(cluster, headers=OPENMETRICS)
    assert set(plain.values) == set(open_metrics.values)
    name = f"{TOPIC}messagesin_total"
    assert plain(name, topic="orders") == open_metrics(name, topic="orders") == 2
