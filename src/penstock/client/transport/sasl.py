"""OAUTHBEARER for a connection of a client, and the nonces of all exchanges (credentials/)."""

import base64
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.client.transport.tokens import TokenSource
from penstock.credentials.mechanism import AuthenticationFailed

_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7E \t\r\n]+")
_TOKEN = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
_SEPARATOR = "\x01"
NONCE_BYTES = 24


def new_nonce() -> str:
    """Return a random text for one exchange."""
    return base64.b64encode(secrets.token_bytes(NONCE_BYTES)).decode()


@dataclass(frozen=True, slots=True)
class OAuthBearer:
    """A token; `extensions` travel with it."""

    source: TokenSource
    extensions: Mapping[str, str] = field(default_factory=dict)
    name: str = field(default="OAUTHBEARER", init=False)

    def __post_init__(self) -> None:
        for name, value in self.extensions.items():
            if not _EXTENSION_NAME.fullmatch(name) or name == "auth":
                raise ValueError(f"{name!r} cannot name a SASL extension: letters only, not auth")
            if not _EXTENSION_VALUE.fullmatch(value):
                raise ValueError(f"the SASL extension {name} has a value that cannot be sent")

    def begin(self, _nonce: str, /) -> "BearerExchange":
        return BearerExchange(self)


@dataclass(slots=True)
class BearerExchange:
    """One authentication by a token."""

    credentials: OAuthBearer
    refused: str = ""

    def first(self) -> bytes:
        token = self.credentials.source.token()
        if not _TOKEN.fullmatch(token):
            raise AuthenticationFailed("what should be a bearer token has other characters")
        pairs = {"auth": f"Bearer {token}", **self.credentials.extensions}
        return "".join(
            [
                f"n,,{_SEPARATOR}",
                *(f"{name}={value}{_SEPARATOR}" for name, value in pairs.items()),
                _SEPARATOR,
            ]
        ).encode()

    def answer(self, challenge: bytes) -> bytes | None:
        if self.refused:
            raise AuthenticationFailed(f"the server refused the token: {self.refused}")
        if not challenge:
            return None
        # The server gives the reason in this message, and fails the exchange after the reply.
        self.refused = _status_of(challenge)
        return _SEPARATOR.encode()


def _status_of(challenge: bytes) -> str:
    text = challenge.decode(errors="replace")
    try:
        told = json.loads(text)
    except ValueError:
        return text
    return str(told.get("status", text)) if isinstance(told, dict) else text
