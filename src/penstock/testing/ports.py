"""A free port that a node keeps while it is down, so that its clients find it again."""

import socket
import sys

# Linux lets a listener bind beside a bound socket that does not listen, and reserves the port
# meanwhile; connections are rejected. Elsewhere the port is only remembered.
HOLDS = sys.platform == "linux"


class HeldPort:
    """One port of an address, from its choice until `close`."""

    def __init__(self, host: str) -> None:
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((host, 0))
        self.port: int = self._socket.getsockname()[1]
        if not HOLDS:
            self._socket.close()

    def close(self) -> None:
        self._socket.close()
