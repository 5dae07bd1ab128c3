"""Both ways through Produce, the remembered one and the general one, answer alike."""

import random
import re
import socket
import struct
from collections.abc import Iterator

import pytest

from penstock.client.transport.connection import Connection
from penstock.credentials.principal import anonymous_at
from penstock.model import ZERO_ID
from penstock.testing import Cluster
from penstock.wire.batch import Record, build_batch
from penstock.wire.frame import request_frame
from penstock.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from penstock.wire.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

ANYBODY = anonymous_at("")

PARTITIONS = 4
TOPICS = ("short", "a-topic-with-a-longer-name")
VERSIONS = range(3, 14)
REQUESTS = 60
FAR_FUTURE_MS = 2**50


class Side:
    """One node with a raw connection to it."""

    def __init__(self, *, remembers: bool) -> None:
        self.cluster = Cluster().start()
        for topic in TOPICS:
            self.cluster.create_topic(topic, PARTITIONS)
        broker = self.cluster.broker
        if not remembers:
            broker.produce_cache.remember = lambda *_: None  # type: ignore[method-assign]
        with Connection(*self.cluster.address) as connection:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in TOPICS])
            answer = connection.request(request, MetadataResponse)
        self.ids = {str(topic.name): topic.topic_id for topic in answer.topics}
        self.socket = socket.create_connection(self.cluster.address)

    def ask(self, request: ProduceRequest, version: int, correlation_id: int) -> bytes:
        """The answer's bytes, without what belongs to this node or this moment alone."""
        for topic in request.topic_data:
            topic.topic_id = self.ids.get(topic.name, b"\7" * 16)
        self.socket.sendall(request_frame(0, version, correlation_id, "tester", request))
        (size,) = struct.unpack(">i", self._read(4))
        answer = self._read(size)
        for topic_id in self.ids.values():
            answer = answer.replace(topic_id, ZERO_ID)
        return re.sub(rb"\[-?[0-9]+, [0-9]+\]", b"[the times that are allowed]", answer)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            assert more, "the node closed the connection"
            data += more
        return data

    def close(self) -> None:
        self.socket.close()
        self.cluster.close()


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[Side, Side]]:
    pair = Side(remembers=True), Side(remembers=False)
    yield pair
    for side in pair:
        side.close()


def random_batch(dice: random.Random) -> bytes:
    timestamp = FAR_FUTURE_MS if dice.random() < 0.05 else 1_000_000 + dice.randrange(1000)
    records = [
        Record(offset, timestamp, None, dice.randbytes(dice.choice((0, 10, 100, 3000, 40_000))))
        for offset in range(dice.choice((1, 1, 3)))
    ]
    batch = bytearray(build_batch(records, compression=dice.choice((0, 0, 1, 4))))
    if dice.random() < 0.05:
        batch[-1] ^= 1  # a checksum that does not hold
    return bytes(batch)


def random_request(dice: random.Random) -> ProduceRequest:
    topics = dice.choice((TOPICS[:1], TOPICS[:1], TOPICS[1:], TOPICS, ("missing",)))
    data = []
    for topic in topics:
        count = dice.choice((1, 1, 2, PARTITIONS))
        indexes = dice.sample(range(PARTITIONS + (dice.random() < 0.1)), count)
        partitions = [PartitionProduceData(index=i, records=random_batch(dice)) for i in indexes]
        data.append(TopicProduceData(name=topic, partition_data=partitions))
    acks = dice.choice((1, 1, -1, 2))
    return ProduceRequest(acks=acks, timeout_ms=dice.choice((1000, 30_000)), topic_data=data)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_remembered_way_answers_what_the_general_way_answers(
    version: int, sides: tuple[Side, Side]
) -> None:
    remembering, forgetting = sides
    for number in range(REQUESTS):
        request = random_request(random.Random(f"{version}/{number}"))
        answers = [side.ask(request, version, number) for side in (remembering, forgetting)]
        assert answers[0] == answers[1], f"request {number}: {request}"


def test_the_remembered_way_was_taken(sides: tuple[Side, Side]) -> None:
    remembering, forgetting = sides
    for side in sides:
        side.ask(random_request(random.Random("any")), 11, 1)
    routes = [
        sum(map(len, side.cluster.broker.produce_cache.routes_of(ANYBODY)))
        for side in (remembering, forgetting)
    ]
    assert routes[0] > 0 and routes[1] == 0


def test_the_memo_is_emptied_when_metadata_moves(sides: tuple[Side, Side]) -> None:
    remembering = sides[0]
    remembering.ask(random_request(random.Random("any")), 11, 1)
    remembering.cluster.create_topic("another")
    routes = remembering.cluster.broker.produce_cache.routes_of(ANYBODY)
    assert sum(map(len, routes)) == 0
