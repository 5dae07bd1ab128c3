"""A bare socket that speaks single requests, and short ways to write the ones that tests repeat."""

import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from penstock.errors import CoordinatorNotAvailable
from penstock.testing.cluster import Cluster
from penstock.wire.apis import APIS, response_class
from penstock.wire.batch import Record, build_batch
from penstock.wire.codec import read_from
from penstock.wire.frame import parse_response_header, request_frame
from penstock.wire.messages import k00_produce as k00
from penstock.wire.messages import k01_fetch as k01
from penstock.wire.messages import k02_list_offsets as k02
from penstock.wire.messages import k03_metadata as k03
from penstock.wire.messages import k10_find_coordinator as k10
from penstock.wire.messages import k22_init_producer_id as k22
from penstock.wire.schema import schema_of

NOW_MS = 1_700_000_000_000
SOCKET_SECONDS_MAX = 30.0
LONG_POLL_MS = 20_000  # longer than any test should take: only news ends such a wait
QUIET_SECONDS = 0.05
QUESTIONS_MAX = 50_000  # until a topic is made
TOPIC_IDS = 13  # the first version of Produce and of Fetch with topic ids


class Asker:
    """One connection. Answers are read whole: a byte too many fails the test."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, SOCKET_SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 100
        self._asked: list[tuple[int, int, int]] = []

    def close(self) -> None:
        self._socket.close()

    def send(self, message: object, version: int) -> None:
        """Ask without waiting; `receive` gives the answers in the order of the questions."""
        key = schema_of(type(message)).key
        assert key is not None
        self._correlation_id += 1
        self._asked.append((key, version, self._correlation_id))
        frame = request_frame(key, version, self._correlation_id, "asker", message)
        self._socket.sendall(frame)

    def send_bytes(self, frame: bytes) -> None:
        self._socket.sendall(frame)

    def send_silently(self, message: object, version: int) -> None:
        """Send what gets no answer."""
        self.send(message, version)
        self._asked.pop()

    def receive(self) -> Any:
        key, version, correlation_id = self._asked.pop(0)
        frame = self.receive_bytes()
        answered, position = parse_response_header(key, version, frame)
        assert answered == correlation_id, "answers come in the order of the questions"
        kind: type[Any] = response_class(key)
        response, end = read_from(kind, version, frame, position)
        assert end == len(frame), "nothing follows an answer"
        return response

    def ask(self, message: object, version: int) -> Any:
        self.send(message, version)
        return self.receive()

    def receive_bytes(self) -> bytes:
        """One frame without its size."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the server closed the connection")
            data += more
        return data

    def is_closed(self) -> bool:
        """Whether the server ends the connection without another byte."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def is_quiet(self) -> bool:
        """Whether nothing comes for a moment: for the answers that must not come yet."""
        self._socket.settimeout(QUIET_SECONDS)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(SOCKET_SECONDS_MAX)
        return False


@contextmanager
def asking(cluster: Cluster) -> Iterator[Asker]:
    asker = Asker(cluster.address)
    try:
        yield asker
    finally:
        asker.close()


def versions(key: int) -> list[int]:
    low, high = APIS[key].versions
    return list(range(low, high + 1))


def new_topic(
    cluster: Cluster, partitions: int = 1, config: dict[str, str] | None = None, name: str = "api"
) -> str:
    """A topic that no other test knows."""
    return cluster.create_topic(unused_name(name), partitions, config)


def unused_name(name: str = "api") -> str:
    return f"{name}-{uuid4().hex[:12]}"


def topic_id(asker: Asker, name: str) -> bytes:
    answer = asker.ask(
        k03.MetadataRequest(
            topics=[k03.MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
        ),
        12,
    )
    found: bytes = answer.topics[0].topic_id
    return found


# -- records


def find_coordinator(asker: Asker, kind: int, name: str) -> None:
    """Ask until there is one: the first question makes the internal topic."""
    for _ in range(QUESTIONS_MAX):
        asked = k10.FindCoordinatorRequest(key_type=kind, coordinator_keys=[name])
        [found] = asker.ask(asked, 4).coordinators
        if not found.error_code:
            return
        assert found.error_code == CoordinatorNotAvailable.code
    raise AssertionError(f"no coordinator for {name}")


def batch(
    *values: bytes | None,
    timestamp: int = NOW_MS,
    producer: tuple[int, int, int] | None = None,
    compression: int = 0,
    key: bytes | None = None,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """A batch whose timestamps rise by one; `producer` is (id, epoch, first sequence)."""
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    return build_batch(
        [Record(place, timestamp + place, key, value) for place, value in enumerate(values)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        compression=compression,
        transactional=transactional,
        control=control,
    )


def produce_request(
    topic: str | bytes, records: bytes | None, *, acks: int = -1, partition: int = 0
) -> k00.ProduceRequest:
    data = k00.TopicProduceData(
        partition_data=[k00.PartitionProduceData(index=partition, records=records)]
    )
    if isinstance(topic, bytes):
        data.topic_id = topic
    else:
        data.name = topic
    return k00.ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data])


def produce(
    asker: Asker,
    topic: str | bytes,
    records: bytes | None,
    *,
    version: int = 9,
    acks: int = -1,
    partition: int = 0,
) -> k00.PartitionProduceResponse:
    """The answer about the one partition."""
    request = produce_request(topic, records, acks=acks, partition=partition)
    answer = asker.ask(request, version)
    [told] = answer.responses
    [one] = told.partition_responses
    assert isinstance(one, k00.PartitionProduceResponse)
    return one


def producer_id(asker: Asker) -> int:
    answer = asker.ask(k22.InitProducerIdRequest(transactional_id=None), 4)
    assert answer.error_code == 0
    drawn: int = answer.producer_id
    return drawn


# -- fetching


def fetch_topic(
    topic: str | bytes,
    offsets: dict[int, int],
    *,
    bytes_max: int = 1 << 20,
    leader_epoch: int = -1,
    last_epoch: int = -1,
) -> k01.FetchTopic:
    made = k01.FetchTopic(
        partitions=[
            k01.FetchPartition(
                partition=index,
                fetch_offset=offset,
                partition_max_bytes=bytes_max,
                current_leader_epoch=leader_epoch,
                last_fetched_epoch=last_epoch,
            )
            for index, offset in offsets.items()
        ]
    )
    if isinstance(topic, bytes):
        made.topic_id = topic
    else:
        made.topic = topic
    return made


def fetch_request(
    *topics: k01.FetchTopic,
    wait_ms: int = 0,
    bytes_min: int = 1,
    bytes_max: int = 50 << 20,
    session: tuple[int, int] = (0, -1),
    forgotten: Sequence[k01.ForgottenTopic] = (),
    committed_only: bool = False,
) -> k01.FetchRequest:
    """`session` is (id, epoch); (0, -1) asks for none, (0, 0) for a new one."""
    return k01.FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=bytes_min,
        max_bytes=bytes_max,
        isolation_level=1 if committed_only else 0,
        session_id=session[0],
        session_epoch=session[1],
        topics=list(topics),
        forgotten_topics_data=list(forgotten),
    )


def fetch(
    asker: Asker, topic: str | bytes, offset: int, *, version: int = 12, **more: Any
) -> k01.PartitionData:
    """The answer about partition 0, without a session."""
    bytes_max = more.pop("partition_bytes_max", 1 << 20)
    wanted = fetch_topic(topic, {0: offset}, bytes_max=bytes_max)
    answer = asker.ask(fetch_request(wanted, **more), version)
    [told] = answer.responses
    [one] = told.partitions
    assert isinstance(one, k01.PartitionData)
    return one


# -- offsets


def list_offsets_request(
    topic: str, timestamp: int, *, partition: int = 0, leader_epoch: int = -1
) -> k02.ListOffsetsRequest:
    wanted = k02.ListOffsetsPartition(
        partition_index=partition, timestamp=timestamp, current_leader_epoch=leader_epoch
    )
    return k02.ListOffsetsRequest(
        replica_id=-1,
        topics=[k02.ListOffsetsTopic(name=topic, partitions=[wanted])],
        timeout_ms=5_000,
    )


def list_offset(
    asker: Asker, topic: str, timestamp: int, *, version: int = 11, **more: int
) -> k02.ListOffsetsPartitionResponse:
    answer = asker.ask(list_offsets_request(topic, timestamp, **more), version)
    [told] = answer.topics
    [one] = told.partitions
    assert isinstance(one, k02.ListOffsetsPartitionResponse)
    return one
