"""The SASL mechanisms of a connection, and their credentials.

A mechanism makes one exchange per connection: `first` returns the client's first message, `answer`
its reply to a challenge, None at the end.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from penstock.client.transport.scram import HASHES, AuthenticationFailed, ScramExchange
from penstock.client.transport.tokens import TokenSource

_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7E \t\r\n]+")
_TOKEN = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
_SEPARATOR = "\x01"


class Exchange(Protocol):
    """One authentication in progress."""

    def first(self) -> bytes: ...

    def answer(self, challenge: bytes) -> bytes | None: ...


class Mechanism(Protocol):
    """Credentials, and the exchange that proves them."""

    @property
    def name(self) -> str: ...

    def begin(self) -> Exchange: ...


@dataclass(frozen=True, slots=True)
class SaslPlain:
    """The password itself; only safe inside TLS."""

    username: str
    password: str = field(repr=False)
    name: str = field(default="PLAIN", init=False)

    def begin(self) -> Exchange:
        return _PlainExchange(self)


@dataclass(frozen=True, slots=True)
class _PlainExchange:
    credentials: SaslPlain

    def first(self) -> bytes:
        return f"\0{self.credentials.username}\0{self.credentials.password}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        if challenge:
            raise AuthenticationFailed("the server goes on after the only message of PLAIN")
        return None


@dataclass(frozen=True, slots=True)
class Scram:
    """A password that neither side sends."""

    name: str
    username: str
    password: str = field(repr=False)
    token: bool = False

    def __post_init__(self) -> None:
        assert self.name in HASHES, "made for a known mechanism only"

    def begin(self) -> Exchange:
        return ScramExchange(self.name, self.username, self.password, self.token)


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

    def begin(self) -> Exchange:
        return _BearerExchange(self)


@dataclass(slots=True)
class _BearerExchange:
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
