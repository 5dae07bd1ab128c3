"""A server of one broker that answers as a test says, and keeps what it was asked."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from penstock.model import TopicPartition
from penstock.wire.apis import APIS, request_class
from penstock.wire.codec import read
from penstock.wire.frame import parse_request_header, response_frame
from penstock.wire.messages import k02_list_offsets as k02
from penstock.wire.messages import k03_metadata as k03
from penstock.wire.messages import k10_find_coordinator as k10
from penstock.wire.messages import k18_api_versions as k18

NODE = 1
FIND_MANY_FROM = 4
UNKNOWN_TOPIC = 3
END, BEGINNING = -1, -2

# Answers a request of some version, the class of which its key says.
Answer = Callable[[Any, int], object]


class ScriptedServer:
    """Metadata, coordinators and offsets of `logs` are answered by themselves; `highest` has the
    last version of each API that this server seems to know, -1 for one that it does not serve."""

    def __init__(
        self,
        answers: Mapping[int, Answer] | None = None,
        *,
        logs: Mapping[TopicPartition, tuple[int, int]] | None = None,
        highest: Mapping[int, int] | None = None,
    ) -> None:
        self.logs = dict(logs or {})
        self.asked: list[tuple[int, Any]] = []
        self._highest = dict(highest or {})
        self._answers: dict[int, Answer] = {
            2: self._list_offsets,
            3: self._metadata,
            10: self._find_coordinator,
            18: self._api_versions,
            **(answers or {}),
        }
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = int(self._listener.getsockname()[1])

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    def requests(self, key: int) -> list[Any]:
        return [message for asked, message in self.asked if asked == key]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with contextlib.suppress(OSError), peer, peer.makefile("rb") as stream:
            while head := stream.read(4):
                (size,) = struct.unpack(">i", head)
                frame = stream.read(size)
                header = parse_request_header(frame)
                key, version = header.api_key, header.api_version
                message: Any = read(request_class(key), version, frame, header.body_position)
                self.asked.append((key, message))
                answer = self._answers[key](message, version)
                peer.sendall(response_frame(key, version, header.correlation_id, answer))

    def _api_versions(self, _request: Any, _version: int) -> k18.ApiVersionsResponse:
        keys = [
            k18.ApiVersion(
                api_key=key,
                min_version=APIS[key].versions[0],
                max_version=self._highest.get(key, APIS[key].versions[1]),
            )
            for key in self._answers
            if self._highest.get(key, 0) >= 0
        ]
        return k18.ApiVersionsResponse(api_keys=keys)

    def _metadata(self, request: k03.MetadataRequest, _version: int) -> k03.MetadataResponse:
        named = {each.topic for each in self.logs}
        wanted = sorted(named)
        if request.topics is not None:
            wanted = [each.name or "" for each in request.topics]
        return k03.MetadataResponse(
            brokers=[k03.MetadataResponseBroker(node_id=NODE, host="127.0.0.1", port=self._port)],
            controller_id=NODE,
            topics=[
                self._topic(name)
                if name in named
                else k03.MetadataResponseTopic(name=name, error_code=UNKNOWN_TOPIC)
                for name in wanted
            ],
        )

    def _topic(self, name: str) -> k03.MetadataResponseTopic:
        return k03.MetadataResponseTopic(
            name=name,
            partitions=[
                k03.MetadataResponsePartition(
                    partition_index=each.partition,
                    leader_id=NODE,
                    replica_nodes=[NODE],
                    isr_nodes=[NODE],
                )
                for each in self.logs
                if each.topic == name
            ],
        )

    def _list_offsets(
        self, request: k02.ListOffsetsRequest, _version: int
    ) -> k02.ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            answered = []
            for each in topic.partitions:
                start, end = self.logs[TopicPartition(topic.name, each.partition_index)]
                offset = {END: end, BEGINNING: start}.get(each.timestamp, -1)
                answered.append(
                    k02.ListOffsetsPartitionResponse(
                        partition_index=each.partition_index, offset=offset
                    )
                )
            topics.append(k02.ListOffsetsTopicResponse(name=topic.name, partitions=answered))
        return k02.ListOffsetsResponse(topics=topics)

    def _find_coordinator(
        self, request: k10.FindCoordinatorRequest, version: int
    ) -> k10.FindCoordinatorResponse:
        if version < FIND_MANY_FROM:
            return k10.FindCoordinatorResponse(node_id=NODE, host="127.0.0.1", port=self._port)
        return k10.FindCoordinatorResponse(
            coordinators=[
                k10.Coordinator(key=key, node_id=NODE, host="127.0.0.1", port=self._port)
                for key in request.coordinator_keys
            ]
        )
