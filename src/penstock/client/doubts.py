"""Whether security.protocol is wrong for the port: looked into while no broker can be reached.

librdkafka tries again for ever, and says no more than that connections break off. A broker that is
only down must not end anybody's loop, so a client is told nothing until the port itself has said
that it speaks something else. The look is on a thread of its own; one at a time.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from penstock.client.echo import Echo
from penstock.client.failures import AllBrokersDown, TransportFailure, WrongProtocol
from penstock.client.transport.security import Protocol

if TYPE_CHECKING:
    from confluent_kafka import KafkaError as RdkafkaError

    from penstock.client.transport.diagnosis import Mismatch

ADDRESSES_MAX = 3
LOOK_AGAIN_S = 10.0
# Of what one look cannot tell from a server that goes down: so many looks, this far apart.
LOOKS = 3
BETWEEN_LOOKS_S = 1.0
_DOUBTFUL = (AllBrokersDown.code, TransportFailure.code)


class Doubts:
    """Of one client; `found` is called on the thread that has looked."""

    def __init__(
        self,
        rdkafka: Mapping[str, object],
        log: logging.Logger,
        echo: Echo,
        found: Callable[[WrongProtocol], None],
    ) -> None:
        """`rdkafka` are the client's settings, by librdkafka's names; `echo` is where it logs."""
        said = str(rdkafka.get("security.protocol", Protocol.PLAINTEXT)).upper()
        self._protocol = Protocol(said)
        self._bootstrap = str(rdkafka.get("bootstrap.servers", ""))
        self._log = log
        self._echo = echo
        self._found = found
        # The cluster has answered already: what is not certain is logged then, and ends nothing. It
        # may be a proxy whose servers are down.
        self.has_worked = False
        self._next_look = 0.0
        self._looking = threading.Lock()
        self._over = threading.Event()

    def heard(self, error: "RdkafkaError") -> None:
        """What librdkafka reports about connections."""
        now = time.monotonic()
        if error.code() not in _DOUBTFUL or now < self._next_look or self._over.is_set():
            return
        self._next_look = now + LOOK_AGAIN_S
        if not self._looking.locked():
            threading.Thread(target=self._look, name="penstock-doubts", daemon=True).start()

    def end(self) -> None:
        """No more looks."""
        self._over.set()

    def _look(self) -> None:
        from penstock.client.cluster.nodes import parse_bootstrap

        with self._looking:
            try:
                addresses = parse_bootstrap(self._bootstrap)[:ADDRESSES_MAX]
            except ValueError:
                return  # librdkafka knows more ways to write them
            for host, port in addresses:
                found = self._wrong_at(host, port)
                if found is not None and not self._over.is_set():
                    what = f"no connection to {host}:{port} can come about: {found.what}"
                    wrong = WrongProtocol(what, next_step=found.next_step)
                    self._log.error("%s", wrong)
                    if found.is_certain or not (self.has_worked or self._echo.knows_nodes):
                        self._found(wrong)
                    return

    def _wrong_at(self, host: str, port: int) -> "Mismatch | None":
        from penstock.client.transport.diagnosis import mismatch, spoken_at

        for _ in range(LOOKS):
            found = mismatch(self._protocol, spoken_at(host, port))
            if found is None or found.is_certain:
                return found
            if self._over.wait(BETWEEN_LOOKS_S):
                return None
        return found
