"""SaslHandshake, v0-v1, on a connection that has logged in: another login begins (KIP-368).

Before a login network/login_connection.py answers. A session without an end is not prolonged, and
one that has an end once a second at most: ILLEGAL_SASL_STATE, as for a connection without a login.
v1: SASL bytes travel inside SaslAuthenticate; another login needs that.
"""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import IllegalSaslState, UnsupportedSaslMechanism
from penstock.security.login.login import LoggedIn, LoginFailed
from penstock.wire.messages.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


class OtherMechanism:
    """A login by another mechanism than the first one of a connection, which always fails."""

    done: LoggedIn | None = None

    def answer(self, _message: bytes) -> bytes:
        raise LoginFailed("another mechanism than at the first login")


def handle(
    broker: "Broker", request: ClientRequest, message: SaslHandshakeRequest
) -> SaslHandshakeResponse | None:
    connection = request.connection
    session, logins = connection.session, connection.listener.logins
    now_ms = connection.listener.now_ms()
    may_repeat = session is not None and session.may_log_in_again(now_ms)
    if session is None or logins is None or not may_repeat or request.api_version == 0:
        return SaslHandshakeResponse(error_code=IllegalSaslState.code)
    exchange = logins.begin(message.mechanism)
    if exchange is None:
        logins.failed_again += 1
        code = UnsupportedSaslMechanism.code
        failure = SaslHandshakeResponse(error_code=code, mechanisms=list(logins.names))
        request.reply_late_and_close(failure, broker.world, logins.failure_delay_ms)
        return None
    request.end_turn(broker.world)
    is_same = message.mechanism == session.mechanism
    session.begin_again(exchange if is_same else OtherMechanism(), now_ms)
    return SaslHandshakeResponse(mechanisms=list(logins.names))
