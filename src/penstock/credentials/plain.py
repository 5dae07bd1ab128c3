"""PLAIN, the client's side (RFC 4616): name and password in one message."""

from dataclasses import dataclass, field

from penstock.credentials.mechanism import AuthenticationFailed

PLAIN = "PLAIN"


@dataclass(frozen=True, slots=True)
class SaslPlain:
    """The password itself; only safe inside TLS."""

    username: str
    password: str = field(repr=False)
    name: str = field(default=PLAIN, init=False)

    def begin(self, _nonce: str, /) -> "PlainExchange":
        return PlainExchange(self)


@dataclass(frozen=True, slots=True)
class PlainExchange:
    """One authentication by a password."""

    credentials: SaslPlain

    def first(self) -> bytes:
        return f"\0{self.credentials.username}\0{self.credentials.password}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        if challenge:
            raise AuthenticationFailed("the server goes on after the only message of PLAIN")
        return None
