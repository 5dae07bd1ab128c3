"""The protocol that a port speaks: whether security.protocol is wrong for it.

librdkafka sees only closed connections, and retries for ever. A probe learns more: a TLS server
shakes hands, a plain server lists its API versions, and a SASL server takes no other request before
authentication.
"""

import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from penstock.client.transport.connection import CannotReach, Connection
from penstock.client.transport.security import Protocol, Security
from penstock.client.transport.sockets import refuses_us
from penstock.errors import KafkaError
from penstock.wire.messages.k03_metadata import MetadataRequest, MetadataResponse

PROBE_TIMEOUT_MS = 3_000
LISTEN_TIMEOUT_S = 1.0
_WITH_TLS = (Protocol.SSL, Protocol.SASL_SSL)
_WITH_SASL = (Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL)


class Spoken(Enum):
    """The protocol of a port; empty if no server answers, or if the answer is ambiguous."""

    NOTHING = "nothing"
    PLAIN = "Kafka's protocol"
    PLAIN_SASL = "Kafka's protocol, after SASL"
    TLS = "TLS"
    TLS_SASL = "TLS, then Kafka's protocol after SASL"


_TLS = (Spoken.TLS, Spoken.TLS_SASL)
_SASL = (Spoken.PLAIN_SASL, Spoken.TLS_SASL)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The reason why a client of this security.protocol is not understood."""

    what: str
    next_step: str
    # Whether one probe is enough. A server that shuts down closes connections too.
    is_certain: bool


def mismatch(protocol: Protocol, spoken: Spoken) -> Mismatch | None:
    """Return the mismatch; None if the protocol fits or the port does not tell.

    SASL for a server without SASL is reported by the server itself.
    """
    said = f"security.protocol is {protocol}"
    if spoken is Spoken.NOTHING:
        return None
    if spoken in _TLS and protocol not in _WITH_TLS:
        right = "SASL_SSL" if protocol in _WITH_SASL or spoken in _SASL else "SSL"
        return Mismatch(
            f"it speaks TLS, and {said}",
            f"Set security.protocol={right} (ssl.truststore.location names who is trusted), or use "
            "the port of a listener without TLS",
            is_certain=True,
        )
    if spoken not in _TLS and protocol in _WITH_TLS:
        right = "SASL_PLAINTEXT" if protocol in _WITH_SASL or spoken in _SASL else "PLAINTEXT"
        return Mismatch(
            f"it speaks no TLS, and {said}",
            f"Use the port of a listener with TLS, or set security.protocol={right}",
            is_certain=True,
        )
    if spoken in _SASL and protocol not in _WITH_SASL:
        right = "SASL_SSL" if protocol in _WITH_TLS else "SASL_PLAINTEXT"
        return Mismatch(
            f"it hangs up on whoever has not said who he is, and {said}",
            f"Set security.protocol={right} with sasl.mechanism and sasl.jaas.config, or use the "
            "port of a listener without SASL",
            is_certain=False,
        )
    return None


def nothing_listens(addresses: Sequence[tuple[str, int]]) -> str:
    """Return a sentence if every address refuses connections; '' if one takes them, or is slow."""
    problems: list[str] = []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), LISTEN_TIMEOUT_S).close()
        except TimeoutError:
            return ""
        except OSError as problem:
            problems.append(f"{host}:{port} ({problem.strerror or problem})")
        else:
            return ""
    return f"nothing listens at {', '.join(problems)}"


def spoken_at(host: str, port: int) -> Spoken:
    """Probe a port, for some seconds at most."""
    answers = _answers(host, port, Security())
    if answers is not None:
        return Spoken.PLAIN if answers else Spoken.PLAIN_SASL
    if not _shakes_hands(host, port):
        return Spoken.NOTHING
    return Spoken.TLS_SASL if _answers(host, port, _AnyServer()) is False else Spoken.TLS


class _AnyServer(Security):
    """TLS without a check of certificates: the probe sends nothing secret."""

    __slots__ = ()

    def context(self) -> ssl.SSLContext:
        return _unverified()


def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _answers(host: str, port: int, security: Security) -> bool | None:
    """Return whether the server answers requests; None if it does not even list its versions."""
    try:
        with Connection(host, port, timeout_ms=PROBE_TIMEOUT_MS, security=security) as connection:
            request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
            try:
                connection.request(request, MetadataResponse)
            except CannotReach as silent:
                # A slow server is not a mismatch.
                return None if isinstance(silent.__cause__, TimeoutError) else False
            return True
    except (CannotReach, KafkaError):
        return None


def _shakes_hands(host: str, port: int) -> bool:
    try:
        with (
            socket.create_connection((host, port), PROBE_TIMEOUT_MS / 1000) as opened,
            _unverified().wrap_socket(opened, server_hostname=host),
        ):
            return True
    except (OSError, ValueError) as problem:
        return refuses_us(problem)
