"""TLS before a node that speaks none: unwraps what arrives and passes it on, both ways."""

import contextlib
import socket
import ssl
import threading
from types import TracebackType
from typing import Self

CHUNK_BYTES = 64 * 1024


class TlsFront:
    """Listens at once, so that a node can advertise its port; serves once it knows the node."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._node: tuple[str, int] | None = None
        self._open: set[socket.socket] = set()
        self.subjects: list[str] = []
        self._threads: list[threading.Thread] = []

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def serve(self, host: str, port: int) -> None:
        self._node = (host, port)
        self._start(self._accept)

    def __enter__(self) -> Self:
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
        for each in list(self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(10)

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                raw, _ = self._listener.accept()
                self._open.add(raw)
                self._start(self._join, raw)

    def _join(self, raw: socket.socket) -> None:
        assert self._node is not None, "serves once it knows the node"
        try:
            secured = self._context.wrap_socket(raw, server_side=True)
        except (OSError, ssl.SSLError):
            raw.close()
            return
        shown = secured.getpeercert() or {}
        subject = dict(pair[0] for pair in shown.get("subject", ()))  # type: ignore[misc]
        self.subjects.append(str(subject.get("commonName", "")))
        node = socket.create_connection(self._node)
        self._open.update((secured, node))
        self._start(_pump, node, secured)
        _pump(secured, node)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK_BYTES):
            target.sendall(data)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
