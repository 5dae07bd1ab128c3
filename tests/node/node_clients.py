"""Short-lived clients of a node: one request, one record or one page."""

import socket
from http.client import HTTPConnection

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from node_process import START_SECONDS_MAX, NodeProcess

from penstock.client.admin.blocking import Admin
from penstock.client.values import NewTopic
from penstock.wire.frame import request_frame
from penstock.wire.messages.k18_api_versions import ApiVersionsRequest

API_VERSIONS = request_frame(
    18, 3, 1, "test", ApiVersionsRequest(client_software_name="t", client_software_version="1")
)


def create_topic(node: NodeProcess, name: str, partitions: int = 1) -> None:
    """Create a topic; fail the test if the node rejects it."""
    with Admin(bootstrap=node.bootstrap) as admin:
        result = admin.create_topics([NewTopic(name, partitions=partitions)])[name]
    assert not isinstance(result, Exception), result


def ask(connection: socket.socket, frame: bytes) -> bytes:
    """Send one frame, and return the first bytes of the answer."""
    connection.sendall(frame)
    return connection.recv(65_536)


def ends(bootstrap: str, partition: int, topic: str = "t") -> tuple[int, int] | int:
    """Return the low and the high watermark, or the code of the error."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    try:
        found: tuple[int, int] = consumer.get_watermark_offsets(
            TopicPartition(topic, partition), timeout=2
        )
        return found
    except KafkaException as error:
        return int(error.args[0].code())
    finally:
        consumer.close()


def produce_one(bootstrap: str, partition: int, topic: str = "t") -> int:
    """Send one record once; return the error code of its delivery report, 0 if stored."""
    said: list[int] = []
    producer = Producer({"bootstrap.servers": bootstrap, "retries": 0})
    producer.produce(
        topic,
        b"new",
        partition=partition,
        on_delivery=lambda error, _message: said.append(error.code() if error else 0),
    )
    producer.flush(START_SECONDS_MAX)
    return said[0]


def get(address: str, path: str) -> tuple[int, bytes]:
    """Return status and body of a page on the metrics port."""
    connection = HTTPConnection(address, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
