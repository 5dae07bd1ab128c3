"""SaslAuthenticate, v0-v2, on a connection that logs in again (KIP-368).

Before a login network/login_connection.py answers. Another principal than that of the first login
is a failure.  v1: the answer has the lifetime of the session.
"""

from typing import TYPE_CHECKING

from penstock.broker.logins.listener_logins import ListenerLogins, answered_lifetime_ms
from penstock.broker.logins.session import SaslSession
from penstock.broker.request import ClientRequest
from penstock.errors import IllegalSaslState, SaslAuthenticationFailed
from penstock.security.login.login import LoginFailed, failure_text
from penstock.wire.messages.k36_sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(
    broker: "Broker", request: ClientRequest, message: SaslAuthenticateRequest
) -> SaslAuthenticateResponse | None:
    connection = request.connection
    session, logins = connection.session, connection.listener.logins
    if session is None or logins is None or session.exchange is None:
        return SaslAuthenticateResponse(
            error_code=IllegalSaslState.code,
            error_message="SaslAuthenticate request received after successful authentication",
        )
    try:
        response = _authenticate(session, logins, message, connection.listener.now_ms())
    except LoginFailed as failure:
        logins.failed_again += 1
        reason = f"it failed to log in again by {session.mechanism}: {failure}"
        broker.rejections.limit_reached(connection.peer.address, reason)
        name = connection.listener.name
        broker.access.note_login(request.caller, session.mechanism, name, str(failure))
        response = SaslAuthenticateResponse(
            error_code=SaslAuthenticationFailed.code,
            error_message=failure_text(session.mechanism, again=True),
        )
        request.reply_late_and_close(response, broker.world, logins.failure_delay_ms)
        return None
    if session.exchange is None:
        broker.access.note_login(request.caller, session.mechanism, connection.listener.name)
    request.end_turn(broker.world)
    return response


def _authenticate(
    session: SaslSession, logins: ListenerLogins, message: SaslAuthenticateRequest, now_ms: float
) -> SaslAuthenticateResponse:
    assert session.exchange is not None, "a login is in progress"
    answer = session.exchange.answer(message.auth_bytes)
    done = session.exchange.done
    if done is None:
        return SaslAuthenticateResponse(error_message=None, auth_bytes=answer)
    if (done.name, done.by_token) != (session.name, session.by_token):
        raise LoginFailed("another principal than at the first login")
    lifetime_ms = logins.lifetime_ms(session.mechanism, done)
    session.prolong(now_ms, lifetime_ms)
    logins.successful_again += 1
    return SaslAuthenticateResponse(
        error_message=None, auth_bytes=answer, session_lifetime_ms=answered_lifetime_ms(lifetime_ms)
    )
