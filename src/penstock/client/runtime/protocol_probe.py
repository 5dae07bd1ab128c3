"""A probe for a wrong security.protocol, run while no broker can be reached.

librdkafka retries without limit and reports only broken connections. A broker that is down must not
end a loop, so the client gets an error only after the port itself has shown another protocol. The
probe runs on its own thread, one at a time.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from penstock.client.failures import AllBrokersDown, TransportFailure, WrongProtocol
from penstock.client.runtime.dedup_logger import DedupLogger
from penstock.client.transport.security import Protocol

if TYPE_CHECKING:
    from confluent_kafka import KafkaError as RdkafkaError

    from penstock.client.transport.diagnosis import Mismatch

ADDRESSES_MAX = 3
LOOK_AGAIN_S = 10.0
# The number of probes where one cannot tell another protocol from a server that stops.
LOOKS = 3
BETWEEN_LOOKS_S = 1.0
_DOUBTFUL = (AllBrokersDown.code, TransportFailure.code)


def no_listener(bootstrap: str) -> AllBrokersDown | None:
    """Return the error of a client whose bootstrap addresses all refuse connections, else None.
    Blocks for the network."""
    from penstock.client.cluster.nodes import parse_bootstrap
    from penstock.client.transport.diagnosis import nothing_listens

    try:
        sentence = nothing_listens(parse_bootstrap(bootstrap))
    except ValueError:
        return None  # librdkafka accepts more forms of addresses
    step = "See whether a node runs there: `penstock start` starts one, bootstrap names its address"
    return AllBrokersDown(sentence, next_step=step) if sentence else None


class ProtocolProbe:
    """The probe of one client; `found` is called on the probe's thread."""

    def __init__(
        self,
        rdkafka: Mapping[str, object],
        log: logging.Logger,
        dedup_logger: DedupLogger,
        found: Callable[[WrongProtocol], None],
        absent: Callable[[AllBrokersDown], None] = lambda _error: None,
    ) -> None:
        """Take the client's settings by librdkafka's names, and its logger. `absent` is called
        while no broker has ever answered and nothing listens."""
        said = str(rdkafka.get("security.protocol", Protocol.PLAINTEXT)).upper()
        self._protocol = Protocol(said)
        self._bootstrap = str(rdkafka.get("bootstrap.servers", ""))
        self._log = log
        self._dedup_logger = dedup_logger
        self._found = found
        self._absent = absent
        # After an answer of the cluster uncertain results are only logged: a proxy's servers may
        # be down.
        self.has_worked = False
        self._next_look = 0.0
        self._looking = threading.Lock()
        self._over = threading.Event()

    def heard(self, error: "RdkafkaError") -> None:
        """Start a probe for an error about connections."""
        now = time.monotonic()
        if error.code() not in _DOUBTFUL or now < self._next_look or self._over.is_set():
            return
        self._next_look = now + LOOK_AGAIN_S
        if not self._looking.locked():
            threading.Thread(target=self._look, name="penstock-protocol-probe", daemon=True).start()

    def end(self) -> None:
        """Stop probing."""
        self._over.set()

    def _look(self) -> None:
        from penstock.client.cluster.nodes import parse_bootstrap

        with self._looking:
            try:
                addresses = parse_bootstrap(self._bootstrap)[:ADDRESSES_MAX]
            except ValueError:
                return  # librdkafka accepts more forms of addresses
            for host, port in addresses:
                found = self._wrong_at(host, port)
                if found is not None and not self._over.is_set():
                    what = f"no connection to {host}:{port} can come about: {found.what}"
                    wrong = WrongProtocol(what, next_step=found.next_step)
                    self._log.error("%s", wrong)
                    if found.is_certain or not (self.has_worked or self._dedup_logger.knows_nodes):
                        self._found(wrong)
                    return
            if not (self.has_worked or self._dedup_logger.knows_nodes):
                absent = no_listener(self._bootstrap)
                if absent is not None and not self._over.is_set():
                    self._absent(absent)

    def _wrong_at(self, host: str, port: int) -> "Mismatch | None":
        from penstock.client.transport.diagnosis import mismatch, spoken_at

        for _ in range(LOOKS):
            found = mismatch(self._protocol, spoken_at(host, port))
            if found is None or found.is_certain:
                return found
            if self._over.wait(BETWEEN_LOOKS_S):
                return None
        return found
