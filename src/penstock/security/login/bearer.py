"""OAUTHBEARER, the server's side (RFC 7628): a token in one message.

A bad token is answered with its status; the client has to answer that, and the login fails then.
"""

import json
import re
from collections.abc import Callable
from typing import NamedTuple

from penstock.security.login.login import LoggedIn, LoginFailed

BEARER = "OAUTHBEARER"
MESSAGE_CHARACTERS_MAX = 128 * 1024
ACKNOWLEDGED = b"\x01"
INVALID_TOKEN = json.dumps({"status": "invalid_token"}).encode()

_MESSAGE = re.compile(
    r"n,(?:a=(?P<authorization_id>[^,\x01]*))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)+)\x01"
)
_TOKEN = re.compile(r"bearer (?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.IGNORECASE)


class VerifiedToken(NamedTuple):
    """The principal that a token proves, and the end of the token."""

    name: str
    ends_wall_ms: int


# Raises LoginFailed for a token that proves nothing.
VerifyToken = Callable[[str], VerifiedToken]


class BearerLogins:
    """The tokens of one listener."""

    name = BEARER

    def __init__(self, verify: VerifyToken) -> None:
        self.verify = verify

    def begin(self, _nonce: str, /) -> "BearerLogin":
        return BearerLogin(self.verify)

    def knows(self, _name: str, /) -> bool:
        return True  # a token is good until its end


class BearerLogin:
    """One login: a message, and another one after a bad token."""

    def __init__(self, verify: VerifyToken) -> None:
        self.done: LoggedIn | None = None
        self._verify = verify
        self._failure: LoginFailed | None = None
        self._is_over = False

    def answer(self, message: bytes) -> bytes:
        if self._failure is not None:
            raise self._failure
        if self._is_over:
            raise LoginFailed("a message after the end of OAUTHBEARER")
        self._is_over = True
        authorization_id, token = _parse(message)
        try:
            verified = self._verify(token)
        except LoginFailed as failure:
            self._failure = failure
            return INVALID_TOKEN
        if authorization_id not in ("", verified.name):
            raise LoginFailed("an authorization id that is not the token's principal")
        self.done = LoggedIn(verified.name, ends_wall_ms=verified.ends_wall_ms)
        return b""


def _parse(message: bytes) -> tuple[str, str]:
    """Return the authorization id and the token of a client's first message."""
    if len(message) > MESSAGE_CHARACTERS_MAX:
        raise LoginFailed(f"a message of OAUTHBEARER with {len(message)} bytes")
    try:
        found = _MESSAGE.fullmatch(message.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise LoginFailed("no message of OAUTHBEARER")
    # Extensions are not asked for, so none is trusted.
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\x01") if pair)
    token = _TOKEN.fullmatch(pairs.get("auth", ""))
    if token is None:
        raise LoginFailed("a message of OAUTHBEARER without a bearer token")
    return found["authorization_id"] or "", token["token"]
