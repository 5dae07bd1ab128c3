"""A producer's settings mean what they mean to Kafka: librdkafka understood what was said."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer
from librdkafka_told import NOWHERE, told

import penstock
from penstock import sync as blocking
from penstock.client.settings import ProducerSettings, SettingRefused, producer_settings


def settings(**given: Any) -> ProducerSettings:
    said = {name.replace("_", "."): value for name, value in given.items()}
    return producer_settings(said, bootstrap=NOWHERE)


def test_the_defaults_are_kafkas(capfd: pytest.CaptureFixture[str]) -> None:
    said = settings()
    assert (said.buffer_memory_bytes, said.max_block_ms) == (32 * 1024 * 1024, 60_000)
    assert (said.request_bytes_max, said.delivery_timeout_ms) == (1024 * 1024, 120_000)
    assert said.ignored == ()
    understood = told(capfd, Producer, said.rdkafka)
    assert understood["enable.idempotence"] == "true"
    assert understood["request.required.acks"] == "-1"
    assert understood["message.timeout.ms"] == "120000"
    assert understood["partitioner"] == "murmur2_random"
    assert understood["message.max.bytes"] == "1048576"
    assert understood["socket.timeout.ms"] == "30000"
    assert understood["reconnect.backoff.ms"] == "50"
    assert understood["reconnect.backoff.max.ms"] == "1000"
    assert understood["queue.buffering.max.kbytes"] == "32768"


# What librdkafka understands of one of Kafka's keys, by its own name.
MEANINGS: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"acks": "1"}, {"request.required.acks": "1"}),
    ({"acks": 0}, {"request.required.acks": "0"}),
    ({"acks": "-1"}, {"request.required.acks": "-1"}),
    ({"batch.size": 32768}, {"batch.size": "32768"}),
    ({"batch.size": 0}, {"batch.size": "1", "batch.num.messages": "1"}),
    ({"linger.ms": "20"}, {"queue.buffering.max.ms": "20"}),
    ({"linger.ms": 0.5}, {"queue.buffering.max.ms": "0.5"}),
    ({"compression.type": "ZSTD"}, {"compression.codec": "zstd"}),
    (
        {"compression.type": "gzip", "compression.gzip.level": 6},
        {"compression.level": "6"},
    ),
    ({"compression.type": "lz4", "compression.lz4.level": 17}, {"compression.level": "12"}),
    ({"compression.type": "zstd", "compression.zstd.level": -5}, {"compression.level": "1"}),
    ({"buffer.memory": 1_048_576}, {"queue.buffering.max.kbytes": "1024"}),
    ({"max.request.size": 2_000_000}, {"message.max.bytes": "2000000"}),
    ({"receive.buffer.bytes": 65536}, {"socket.receive.buffer.bytes": "65536"}),
    ({"send.buffer.bytes": 131072}, {"socket.send.buffer.bytes": "131072"}),
    (
        {"request.timeout.ms": 15000},
        {"request.timeout.ms": "15000", "socket.timeout.ms": "15000"},
    ),
    ({"delivery.timeout.ms": 40_000}, {"message.timeout.ms": "40000"}),
    ({"connections.max.idle.ms": 60_000}, {"connections.max.idle.ms": "60000"}),
    ({"client.id": "me"}, {"client.id": "me"}),
    (
        {"client.dns.lookup": "resolve_canonical_bootstrap_servers_only"},
        {"client.dns.lookup": "resolve_canonical_bootstrap_servers_only"},
    ),
    ({"retries": 3}, {"message.send.max.retries": "3"}),
    (
        {"max.in.flight.requests.per.connection": 2},
        {"max.in.flight.requests.per.connection": "2"},
    ),
    (
        {"metadata.max.age.ms": 60_000},
        {"topic.metadata.refresh.interval.ms": "60000", "metadata.max.age.ms": "180000"},
    ),
    (
        {"reconnect.backoff.ms": 2000},
        {"reconnect.backoff.ms": "2000", "reconnect.backoff.max.ms": "2000"},
    ),
    (
        {"reconnect.backoff.max.ms": 20},
        {"reconnect.backoff.ms": "20", "reconnect.backoff.max.ms": "20"},
    ),
    ({"retry.backoff.ms": 0}, {"retry.backoff.ms": "1"}),
    ({"retry.backoff.ms": 5000}, {"retry.backoff.ms": "5000", "retry.backoff.max.ms": "5000"}),
    ({"enable.metrics.push": False}, {"enable.metrics.push": "false"}),
    ({"metadata.recovery.strategy": "NONE"}, {"metadata.recovery.strategy": "none"}),
    (
        {"socket.connection.setup.timeout.ms": 5000},
        {"socket.connection.setup.timeout.ms": "5000"},
    ),
    (
        {"transactional.id": "t", "transaction.timeout.ms": 20_000},
        {
            "transactional.id": "t",
            "transaction.timeout.ms": "20000",
            "message.timeout.ms": "20000",
            "socket.timeout.ms": "20000",
        },
    ),
    ({"queue.buffering.max.messages": 7}, {"queue.buffering.max.messages": "7"}),
]


@pytest.mark.parametrize(("given", "expected"), MEANINGS, ids=lambda each: next(iter(each)))
def test_librdkafka_understands_what_was_said(
    given: dict[str, Any], expected: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    understood = told(capfd, Producer, producer_settings(given, bootstrap=NOWHERE).rdkafka)
    assert {name: understood.get(name) for name in expected} == expected


def test_what_the_producer_does_itself_is_beside_it() -> None:
    said = settings(buffer_memory=5, max_block_ms="7", max_request_size=9)
    assert (said.buffer_memory_bytes, said.max_block_ms, said.request_bytes_max) == (5, 7, 9)


def test_classes_are_as_they_were_given() -> None:
    def partitioner(_topic: str, _key: bytes, _value: bytes, _count: int) -> int:
        return 0

    said = producer_settings(
        {
            "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
            "value.serializer": int,
            "partitioner.class": partitioner,
            "partitioner.ignore.keys": "true",
            "interceptor.classes": "a.b:C, d.e:F",
            "namespace": "dev.",
            "schema.registry.url": "http://127.0.0.1:8081",
        },
        bootstrap=NOWHERE,
    )
    assert said.key_serializer == "org.apache.kafka.common.serialization.StringSerializer"
    assert said.value_serializer is int
    assert said.partitioner is partitioner
    assert said.partitioner_ignores_keys
    assert said.interceptors == ("a.b:C", "d.e:F")
    assert said.namespace == "dev."
    assert said.serde == {"schema.registry.url": "http://127.0.0.1:8081"}


def test_interceptors_may_be_objects() -> None:
    one = object()
    assert producer_settings({"interceptor.classes": [one]}, bootstrap=NOWHERE).interceptors == (
        one,
    )
    assert producer_settings({"interceptor.classes": one}, bootstrap=NOWHERE).interceptors == (one,)


# -- idempotence, by Kafka's rules


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"acks": "1"}, "acks has to be all"),
        ({"retries": 0}, "retries has to be above 0"),
        ({"max.in.flight.requests.per.connection": 6}, "has to be at most 5"),
    ],
)
def test_idempotence_gives_way_unless_it_was_asked_for(given: dict[str, Any], why: str) -> None:
    said = producer_settings(given, bootstrap=NOWHERE)
    assert said.rdkafka["enable.idempotence"] is False
    ((key, reason),) = said.ignored
    assert key == "enable.idempotence"
    assert why in reason
    Producer(said.rdkafka)
    with pytest.raises(SettingRefused, match=r"with enable\.idempotence=true"):
        producer_settings({**given, "enable.idempotence": True}, bootstrap=NOWHERE)
    with pytest.raises(SettingRefused, match=r"with transactional\.id"):
        producer_settings({**given, "transactional.id": "t"}, bootstrap=NOWHERE)


def test_a_transactional_producer_has_to_be_idempotent() -> None:
    with pytest.raises(SettingRefused, match=r"enable\.idempotence: has to be true"):
        settings(transactional_id="t", enable_idempotence="false")


def test_an_empty_transactional_id_is_refused() -> None:
    with pytest.raises(SettingRefused, match=r"transactional\.id: is empty"):
        settings(transactional_id="")


# -- what is said to the user


def test_a_delivery_in_a_transaction_ends_with_it() -> None:
    said = settings(transactional_id="t", delivery_timeout_ms=90_000)
    assert said.delivery_timeout_ms == said.transaction_timeout_ms == 60_000
    ((key, why),) = said.ignored
    assert key == "delivery.timeout.ms"
    assert "90000 is taken as 60000" in why


def test_a_value_beyond_librdkafka_is_brought_to_its_limit_and_said() -> None:
    said = settings(receive_buffer_bytes=2**31 - 1)
    assert said.rdkafka["socket.receive.buffer.bytes"] == 100_000_000
    assert said.ignored == (
        ("receive.buffer.bytes", "2147483647 is taken as 100000000, librdkafka's limit"),
    )


def test_a_level_of_another_codec_has_no_effect() -> None:
    said = settings(compression_type="snappy", compression_gzip_level=1)
    assert said.ignored == (("compression.gzip.level", "compression.type is snappy"),)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"acks": "2"}, "acks: is '2'; it takes all, -1, 0, 1"),
        ({"linger.ms": "soon"}, "linger.ms: takes a number, not 'soon'"),
        ({"linger.ms": float("nan")}, "linger.ms: takes a number"),
        ({"retries": 1.5}, "retries: takes a whole number, not 1.5"),
        ({"retries": True}, "retries: takes a whole number, not True"),
        ({"enable.idempotence": "yes"}, "enable.idempotence: takes true or false, not 'yes'"),
        ({"enable.idempotence": 1}, "enable.idempotence: takes true or false"),
        ({"client.id": b"x"}, "client.id: takes text, not bytes"),
        ({"compression.type": "brotli"}, "compression.type: is 'brotli'; it takes none, gzip"),
        ({"compression.type": "gzip", "compression.gzip.level": 0}, "or 1 to 9"),
        ({"delivery.timeout.ms": 5, "linger.ms": 10}, "delivery.timeout.ms: is 5"),
        (
            {"delivery.timeout.ms": 20_000, "request.timeout.ms": 20_000},
            "is 20000, less than linger.ms + request.timeout.ms (5 + 20000); raise it",
        ),
        ({"bootstrap.servers": "a:b"}, "bootstrap.servers: has 'a:b'; an address looks like"),
        ({"bootstrap.servers": "h:1,h:99999"}, "bootstrap.servers: has 'h:99999'"),
        ({"bootstrap.servers": "[::1]:0"}, "bootstrap.servers: has '[::1]:0'"),
        ({"key.serializer": 7}, "key.serializer: takes an object, a class or a name"),
        ({"bootstrap.servers": [1]}, "bootstrap.servers: takes a list of texts"),
        ({"bootstrap.servers": 5}, "bootstrap.servers: takes a list"),
        ({"stats_cb": "x"}, "stats_cb: takes a function"),
        ({"socket.nagle.disable": []}, "socket.nagle.disable: takes text, a number"),
        ({"transaction.two.phase.commit.enable": True}, "librdkafka has no two-phase commit"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_with_its_key(given: dict[str, Any], reason: str) -> None:
    bootstrap = None if "bootstrap.servers" in given else NOWHERE
    with pytest.raises(SettingRefused) as refused:
        producer_settings(given, bootstrap=bootstrap)
    assert reason in str(refused.value)


def test_the_time_of_a_delivery_covers_what_a_record_waits_for() -> None:
    assert settings(request_timeout_ms=200_000, linger_ms=10).delivery_timeout_ms == 200_010
    assert settings(delivery_timeout_ms=20_005, request_timeout_ms=20_000).delivery_timeout_ms
    # Kafka's default of request.timeout.ms is nobody's word.
    assert settings(delivery_timeout_ms=500).delivery_timeout_ms == 500


@pytest.mark.parametrize("servers", ["PLAINTEXT://h:9092", "[::1]:9092,h", "::1", "[::1]"])
def test_addresses_that_librdkafka_takes_are_left_to_it(servers: str) -> None:
    assert producer_settings({"bootstrap.servers": servers}).rdkafka["bootstrap.servers"] == servers


# -- where the cluster is


def test_servers_may_be_a_list() -> None:
    said = producer_settings({"bootstrap.servers": ["a:1", "b:2"]})
    assert said.rdkafka["bootstrap.servers"] == "a:1,b:2"


def test_without_servers_there_is_no_client() -> None:
    unsaid: list[dict[str, Any] | None] = [
        {},
        {"bootstrap.servers": ""},
        {"bootstrap.servers": []},
        None,
    ]
    for given in unsaid:
        with pytest.raises(SettingRefused, match=r"bootstrap\.servers: is missing"):
            producer_settings(given)


def test_servers_are_said_once() -> None:
    with pytest.raises(SettingRefused, match="say one of them"):
        producer_settings({"bootstrap.servers": "a:1"}, bootstrap="b:2")
    producer_settings({"bootstrap.servers": "a:1"}, bootstrap="a:1")


def test_a_refusal_survives_the_way_to_another_process() -> None:
    refused = SettingRefused("acks", "no")
    assert str(pickle.loads(pickle.dumps(refused))) == "acks: no"


@pytest.mark.parametrize("said", ["127.0.0.1:9092", ["bootstrap.servers"], 9092])
@pytest.mark.parametrize(
    "client", [penstock.Producer, penstock.Consumer, blocking.Producer, blocking.Consumer]
)
def test_settings_that_are_no_mapping_are_refused_with_the_way_out(
    client: Callable[..., object], said: object
) -> None:
    with pytest.raises(SettingRefused, match="bootstrap='127"):
        client(said)


@pytest.mark.parametrize(
    ("said", "told"),
    [({}, None), ({"max.block.ms": 1_000}, 1_000), ({"max.block.ms": 10**9}, 3_600_000)],
)
def test_a_topic_that_nobody_knows_is_waited_for_no_longer_than_max_block_ms(
    said: dict[str, int], told: int | None
) -> None:
    found = producer_settings(said, bootstrap="127.0.0.1:9092").rdkafka
    assert found.get("topic.metadata.propagation.max.ms") == told
