"""What a type checker sees of producers. mypy reads this file with the others; its asserts hold."""

from dataclasses import dataclass
from typing import Any, assert_type

from producing import fresh_topic, run, values_of

from penstock import Consumer, Delivered, Delivery, Producer, serde
from penstock import sync as blocking
from penstock.testing.external_cluster import ClusterLike


@dataclass(frozen=True)
class Order:
    customer: str
    cents: int


def test_a_producer_knows_the_types_of_its_keys_and_values(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)

    async def send() -> None:
        producer = Producer(bootstrap=penstock_cluster.bootstrap, key=str, value=Order)
        assert_type(producer, Producer[str, Order])
        async with producer:
            delivery = producer.send(topic, Order("ada", 12), "ada")
            assert_type(delivery, Delivery)
            assert_type(await delivery, Delivered)
            await producer.send_batch(topic, [("bob", Order("bob", 3)), Order("eve", 4)])

    run(send())
    assert values_of(penstock_cluster, topic) == [
        b'{"customer":"ada","cents":12}',
        b'{"customer":"bob","cents":3}',
        b'{"customer":"eve","cents":4}',
    ]


def test_a_value_of_another_type_is_an_error_to_the_checker() -> None:
    def wrong(producer: Producer[str, Order]) -> None:
        producer.send("topic", "no order", "key")  # type: ignore[arg-type]
        producer.send("topic", Order("ada", 1), 7)  # type: ignore[arg-type]

    assert wrong is not None


def test_types_come_from_annotations_when_settings_name_the_serializers() -> None:
    producer: Producer[str, Order] = Producer(
        {"key.serializer": "org.apache.kafka.common.serialization.StringSerializer"},
        bootstrap="127.0.0.1:1",
        value=serde.json_of(Order),
    )
    assert_type(producer, Producer[str, Order])


def test_without_serializers_bytes_and_text_are_sent() -> None:
    producer = Producer(bootstrap="127.0.0.1:1")

    def send(anything: Producer[bytes | str, bytes | str]) -> None:
        anything.send("topic", b"bytes", "text")

    assert_type(producer, Producer[bytes | str, bytes | str])
    assert send is not None


def test_the_blocking_twin_has_the_same_types() -> None:
    producer = blocking.Producer(bootstrap="127.0.0.1:1", key=int, value=Order)
    assert_type(producer, blocking.Producer[int, Order])

    def send(typed: blocking.Producer[int, Order]) -> Delivered:
        return typed.send("topic", Order("ada", 1), 7).result()

    assert send is not None


def test_of_a_serializer_that_is_named_anything_goes_to_the_checker() -> None:
    at = "127.0.0.1:1"
    assert_type(Producer(bootstrap=at, value="json"), Producer[bytes | str, Any])
    assert_type(Producer(bootstrap=at, key="json"), Producer[Any, bytes | str])
    assert_type(Producer(bootstrap=at, key=str, value="json"), Producer[str, Any])
    assert_type(Producer(bootstrap=at, key="long", value=Order), Producer[Any, Order])
    both = blocking.Producer(bootstrap=at, key="long", value="json", namespace="dev.")
    assert_type(both, blocking.Producer[Any, Any])

    def send(producer: Producer[bytes | str, Any]) -> None:
        producer.send("topic", {"a": 1}, "key")

    typed: Producer[str, dict[str, int]] = Producer(bootstrap=at, key=str, value="json")
    assert_type(typed, Producer[str, dict[str, int]])
    assert send is not None


def test_of_a_deserializer_that_is_named_anything_comes_to_the_checker() -> None:
    at = "127.0.0.1:1"
    assert_type(Consumer(bootstrap=at, value="json"), Consumer[bytes, Any])
    assert_type(Consumer(bootstrap=at, key="long"), Consumer[Any, bytes])
    assert_type(Consumer(bootstrap=at, key="long", value=Order), Consumer[Any, Order])
    assert_type(Consumer(bootstrap=at, key=str, value="json"), Consumer[str, Any])
    assert_type(blocking.Consumer(bootstrap=at, value="json"), blocking.Consumer[bytes, Any])
