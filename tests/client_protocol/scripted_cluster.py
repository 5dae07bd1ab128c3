"""Brokers that play a cluster on sockets of their own, and misbehave when a test says so.

They keep logs (scripted_log.py), know who leads what, and answer in order. A test puts faults in
line: each takes the next request of its key on any broker.
"""

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from scripted_log import ScriptedLog

from penstock.errors import (
    FencedLeaderEpoch,
    KafkaError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from penstock.model import ZERO_ID, TopicPartition
from penstock.wire.apis import APIS, request_class
from penstock.wire.codec import read
from penstock.wire.frame import parse_request_header, response_frame
from penstock.wire.messages import k00_produce as k00
from penstock.wire.messages import k01_fetch as k01
from penstock.wire.messages import k02_list_offsets as k02
from penstock.wire.messages import k03_metadata as k03
from penstock.wire.messages import k18_api_versions as k18

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18
IDS_FROM = 13
WAIT_STEP_SECONDS = 0.005
Answer = Callable[[Any, int], object]


@dataclass(frozen=True)
class Fault:
    """What happens to one request instead of its answer.

    `code` is answered for each of its partitions; `cut` closes the connection; `done` says whether
    the request takes effect nevertheless. `meanwhile` is called first.
    """

    key: int
    code: int = 0
    cut: bool = False
    done: bool = False
    meanwhile: Callable[[], None] | None = None


class ScriptedCluster:
    def __init__(
        self,
        brokers: int = 1,
        *,
        answers: Mapping[int, Answer] | None = None,
        highest: Mapping[int, int] | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._context = context
        self.logs: dict[TopicPartition, ScriptedLog] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.leaders: dict[TopicPartition, int] = {}
        self.epochs: dict[TopicPartition, int] = {}
        self.faults: deque[Fault] = deque()
        self.asked: list[tuple[int, int, int, Any]] = []  # node, key, version, message
        self.throttle_ms = 0
        self._answers = dict(answers or {})
        self._highest = dict(highest or {})
        self._lock = threading.RLock()
        self._listeners = {
            node: socket.create_server(("127.0.0.1", 0)) for node in range(1, brokers + 1)
        }
        self._peers: list[socket.socket] = []

    # -- what a test says

    def create(self, topic: str, partitions: int = 1, topic_id: bytes | None = None) -> None:
        for index in range(partitions):
            partition = TopicPartition(topic, index)
            self.logs[partition] = ScriptedLog()
            self.leaders[partition] = 1 + index % len(self._listeners)
            self.epochs[partition] = 0
        self.topic_ids[topic] = topic_id or topic.encode().ljust(16, b".")[:16]

    def delete(self, topic: str) -> None:
        for partition in [each for each in self.logs if each.topic == topic]:
            del self.logs[partition]
        del self.topic_ids[topic]

    def move(self, partition: TopicPartition, node: int) -> None:
        self.leaders[partition] = node
        self.epochs[partition] += 1

    def requests(self, key: int) -> list[Any]:
        return [message for _, asked, _, message in self.asked if asked == key]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.port(node)}" for node in self._listeners)

    def port(self, node: int) -> int:
        return int(self._listeners[node].getsockname()[1])

    # -- life

    def __enter__(self) -> Self:
        for node in self._listeners:
            threading.Thread(target=self._accept, args=(node,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for listener in self._listeners.values():
            listener.close()
        for peer in self._peers:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)

    def _accept(self, node: int) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listeners[node].accept()
                self._peers.append(peer)
                threading.Thread(target=self._serve, args=(node, peer), daemon=True).start()

    def _serve(self, node: int, peer: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if self._context is not None:
                peer = self._context.wrap_socket(peer, server_side=True)
            self._answer_all(node, peer)

    def _answer_all(self, node: int, peer: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), peer, peer.makefile("rb") as stream:
            while head := stream.read(4):
                (size,) = struct.unpack(">i", head)
                frame = stream.read(size)
                header = parse_request_header(frame)
                key, version = header.api_key, header.api_version
                message: Any = read(request_class(key), version, frame, header.body_position)
                with self._lock:
                    self.asked.append((node, key, version, message))
                    answer = self._answer(node, key, version, message)
                if answer is None:
                    peer.shutdown(socket.SHUT_RDWR)
                    return
                if key == PRODUCE and message.acks == 0:
                    continue
                peer.sendall(response_frame(key, version, header.correlation_id, answer))

    def _answer(self, node: int, key: int, version: int, message: Any) -> object | None:
        fault = None
        if self.faults and self.faults[0].key == key:
            fault = self.faults.popleft()
            if fault.meanwhile is not None:
                fault.meanwhile()
        answer: object | None = None
        if fault is None or fault.done or not (fault.cut or fault.code):
            answer = self._usual(node, key, version, message)
        if fault is not None and fault.cut:
            return None
        if fault is not None and fault.code:
            return _all_failed(key, message, fault.code)
        return answer

    def _usual(self, node: int, key: int, version: int, message: Any) -> object:
        if key in self._answers:
            return self._answers[key](message, version)
        match key:
            case 0:
                return self._produce(node, message, version)
            case 1:
                return self._fetch(node, message, version)
            case 2:
                return self._list_offsets(message)
            case 3:
                return self._metadata(message)
            case _:
                return self._api_versions()

    # -- the APIs

    def _api_versions(self) -> k18.ApiVersionsResponse:
        keys = (PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, *self._answers)
        return k18.ApiVersionsResponse(
            api_keys=[
                k18.ApiVersion(
                    api_key=key,
                    min_version=APIS[key].versions[0],
                    max_version=self._highest.get(key, APIS[key].versions[1]),
                )
                for key in dict.fromkeys(keys)
                if self._highest.get(key, 0) >= 0
            ]
        )

    def _metadata(self, request: k03.MetadataRequest) -> k03.MetadataResponse:
        names = [each.name or "" for each in request.topics or []]
        return k03.MetadataResponse(
            brokers=[
                k03.MetadataResponseBroker(node_id=node, host="127.0.0.1", port=self.port(node))
                for node in self._listeners
            ],
            controller_id=1,
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> k03.MetadataResponseTopic:
        if name not in self.topic_ids:
            return k03.MetadataResponseTopic(name=name, error_code=UnknownTopicOrPartition.code)
        return k03.MetadataResponseTopic(
            name=name,
            topic_id=self.topic_ids[name],
            partitions=[
                k03.MetadataResponsePartition(
                    partition_index=each.partition,
                    leader_id=self.leaders[each],
                    leader_epoch=self.epochs[each],
                    replica_nodes=[self.leaders[each]],
                    isr_nodes=[self.leaders[each]],
                )
                for each in self.logs
                if each.topic == name
            ],
        )

    def _log(
        self, node: int, name: str, topic_id: bytes, index: int, version: int, epoch: int = -1
    ) -> ScriptedLog:
        if version >= IDS_FROM:
            found = [each for each, known in self.topic_ids.items() if known == topic_id]
            if not found or topic_id == ZERO_ID:
                raise UnknownTopicId
            name = found[0]
        partition = TopicPartition(name, index)
        if partition not in self.logs:
            raise UnknownTopicOrPartition
        if self.leaders[partition] != node:
            raise NotLeaderOrFollower
        if 0 <= epoch < self.epochs[partition]:
            raise FencedLeaderEpoch
        return self.logs[partition]

    def _produce(self, node: int, request: k00.ProduceRequest, version: int) -> k00.ProduceResponse:
        topics = []
        for topic in request.topic_data:
            parts = []
            for each in topic.partition_data:
                part = k00.PartitionProduceResponse(index=each.index, base_offset=-1)
                try:
                    log = self._log(node, topic.name, topic.topic_id, each.index, version)
                    part.base_offset = log.append(bytes(each.records or b""))
                except KafkaError as error:
                    part.error_code = error.code
                parts.append(part)
            topics.append(
                k00.TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=parts
                )
            )
        return k00.ProduceResponse(responses=topics)

    def _fetch(self, node: int, request: k01.FetchRequest, version: int) -> k01.FetchResponse:
        if self.throttle_ms:
            throttled, self.throttle_ms = self.throttle_ms, 0
            return k01.FetchResponse(throttle_time_ms=throttled)
        left = request.max_bytes
        got = False
        topics = []
        for topic in request.topics:
            parts = []
            for each in topic.partitions:
                part = k01.PartitionData(partition_index=each.partition, records=b"")
                try:
                    log = self._log(
                        node,
                        topic.topic,
                        topic.topic_id,
                        each.partition,
                        version,
                        each.current_leader_epoch,
                    )
                    size = min(left, each.partition_max_bytes)
                    found = log.read(each.fetch_offset, size, one_at_least=not got)
                    left, got = left - len(found), got or bool(found)
                    part.records = found
                    part.high_watermark = part.last_stable_offset = log.upper
                    part.aborted_transactions = [
                        k01.AbortedTransaction(producer_id=who, first_offset=first)
                        for who, first in log.aborted
                    ]
                except KafkaError as error:
                    part.error_code = error.code
                    got = True
                parts.append(part)
            topics.append(
                k01.FetchableTopicResponse(
                    topic=topic.topic, topic_id=topic.topic_id, partitions=parts
                )
            )
        if not got and request.min_bytes:
            # A long poll of which nothing comes; short, so that tests are.
            until = time.monotonic() + WAIT_STEP_SECONDS
            threading.Event().wait(until - time.monotonic())
        return k01.FetchResponse(responses=topics)

    def _list_offsets(self, request: k02.ListOffsetsRequest) -> k02.ListOffsetsResponse:
        return k02.ListOffsetsResponse(
            topics=[
                k02.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[self._offset(topic.name, each) for each in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _offset(
        self, name: str, asked: k02.ListOffsetsPartition
    ) -> k02.ListOffsetsPartitionResponse:
        log = self.logs[TopicPartition(name, asked.partition_index)]
        return k02.ListOffsetsPartitionResponse(
            partition_index=asked.partition_index,
            offset=log.start if asked.timestamp == -2 else log.upper,
        )


def _all_failed(key: int, message: Any, code: int) -> object:
    if key == PRODUCE:
        return k00.ProduceResponse(
            responses=[
                k00.TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        k00.PartitionProduceResponse(
                            index=each.index, error_code=code, base_offset=-1
                        )
                        for each in topic.partition_data
                    ],
                )
                for topic in message.topic_data
            ]
        )
    if key == FETCH:
        return k01.FetchResponse(
            responses=[
                k01.FetchableTopicResponse(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[
                        k01.PartitionData(
                            partition_index=each.partition, error_code=code, records=b""
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in message.topics
            ]
        )
    raise AssertionError(f"no failure is written for API {key}")
