"""A server of one broker that answers the admin client as a test says, and keeps what it was asked.

An answer that is None never comes: whoever asked waits.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from penstock.wire.apis import APIS, request_class
from penstock.wire.codec import read
from penstock.wire.frame import parse_request_header, response_frame
from penstock.wire.messages import k03_metadata as k03
from penstock.wire.messages import k10_find_coordinator as k10
from penstock.wire.messages import k18_api_versions as k18

NODE = 1
REQUEST_BYTES_MAX = 100 * 1024 * 1024
CLOSE = object()  # the connection, instead of an answer

Answer = Callable[[Any], object]


class AdminServer:
    """Metadata of `topics` (one partition each) and coordinators are answered by themselves."""

    def __init__(
        self,
        answers: Mapping[int, Answer] | None = None,
        *,
        topics: tuple[str, ...] = (),
        highest: Mapping[int, int] | None = None,
    ) -> None:
        self.asked: list[tuple[int, Any]] = []
        self.came = threading.Semaphore(0)  # one for each request that has no answer
        self.connections = 0
        self._topics = topics
        self._highest = dict(highest or {})
        self._answers: dict[int, Answer] = {
            3: self._metadata,
            10: self._find_coordinator,
            18: lambda _: self._api_versions(),
            **(answers or {}),
        }
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = int(self._listener.getsockname()[1])

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    def requests(self, key: int) -> list[Any]:
        return [message for asked, message in self.asked if asked == key]

    def answer(self, key: int, answer: Answer) -> None:
        """From now on."""
        self._answers[key] = answer

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with contextlib.suppress(OSError), peer, peer.makefile("rb") as stream:
            while head := stream.read(4):
                (size,) = struct.unpack(">i", head)
                if not 0 < size <= REQUEST_BYTES_MAX:
                    return  # as brokers do: it is no request
                frame = stream.read(size)
                header = parse_request_header(frame)
                key, version = header.api_key, header.api_version
                message: Any = read(request_class(key), version, frame, header.body_position)
                self.asked.append((key, message))
                answer = self._answers[key](message)
                if answer is CLOSE:
                    return
                if answer is None:
                    self.came.release()
                else:
                    peer.sendall(response_frame(key, version, header.correlation_id, answer))

    def _api_versions(self) -> k18.ApiVersionsResponse:
        keys = [
            k18.ApiVersion(
                api_key=key,
                min_version=APIS[key].versions[0],
                max_version=self._highest.get(key, APIS[key].versions[1]),
            )
            for key in self._answers
        ]
        return k18.ApiVersionsResponse(api_keys=keys)

    def _metadata(self, request: k03.MetadataRequest) -> k03.MetadataResponse:
        wanted = self._topics
        if request.topics is not None:
            wanted = tuple(each.name or "" for each in request.topics)
        partition = k03.MetadataResponsePartition(
            leader_id=NODE, replica_nodes=[NODE], isr_nodes=[NODE]
        )
        return k03.MetadataResponse(
            brokers=[k03.MetadataResponseBroker(node_id=NODE, host="127.0.0.1", port=self._port)],
            controller_id=NODE,
            topics=[
                k03.MetadataResponseTopic(name=name, partitions=[partition])
                if name in self._topics
                else k03.MetadataResponseTopic(name=name, error_code=3)
                for name in wanted
            ],
        )

    def _find_coordinator(self, request: k10.FindCoordinatorRequest) -> k10.FindCoordinatorResponse:
        return k10.FindCoordinatorResponse(
            coordinators=[
                k10.Coordinator(key=key, node_id=NODE, host="127.0.0.1", port=self._port)
                for key in request.coordinator_keys
            ]
        )
