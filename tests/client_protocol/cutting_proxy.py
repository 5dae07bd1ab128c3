"""A relay in front of a node that breaks connections after a number of bytes, by a seed."""

import contextlib
import random
import socket
import threading
from types import TracebackType
from typing import Self

PIECE_BYTES = 16 * 1024


class CuttingProxy:
    """Listens before its node is known, so that the node can advertise it.

    While `cuts` are left, a connection lives for a random number of bytes in either direction.
    """

    def __init__(self, seed: int, cuts: int, bytes_max: int) -> None:
        self.cuts = cuts
        self.target: tuple[str, int] | None = None
        self._choose = random.Random(seed)
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

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
        for each in self._open:
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                assert self.target is not None, "the node is up"
                far = socket.create_connection(self.target)
                self._open += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._relay, args=(source, sink), daemon=True).start()

    def _relay(self, source: socket.socket, sink: socket.socket) -> None:
        with self._lock:
            left = self._choose.randrange(500, self._bytes_max)
        with contextlib.suppress(OSError):
            while piece := source.recv(PIECE_BYTES):
                if self._cut(left - len(piece)):
                    sink.sendall(piece[: max(0, left)])
                    break
                left -= len(piece)
                sink.sendall(piece)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _cut(self, left: int) -> bool:
        with self._lock:
            if left > 0 or not self.cuts:
                return False
            self.cuts -= 1
            return True
