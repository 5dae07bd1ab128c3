"""A login by SASL: the words that all mechanisms share.

A mechanism begins one exchange per login. `answer` takes a message of the client and returns the
next one of the server; `done` is set at the end. A failure tells a peer nothing but the mechanism.
"""

from typing import NamedTuple, Protocol


class LoginFailed(Exception):
    """The peer did not prove its identity. The text is for the log of this node and has no secret;
    a peer gets `failure_text`."""


class LoggedIn(NamedTuple):
    """The end of a login: the name of the principal, and when the credential ends, if it does."""

    name: str
    by_token: bool = False
    ends_wall_ms: int | None = None


class LoginExchange(Protocol):
    """One login in progress."""

    done: LoggedIn | None

    def answer(self, message: bytes) -> bytes:
        """Return the answer to a message; raise LoginFailed, after which the exchange is over."""
        ...


class LoginMechanism(Protocol):
    """A mechanism of a listener, with its credentials."""

    @property
    def name(self) -> str: ...

    def begin(self, nonce: str, /) -> LoginExchange:
        """Begin a login; `nonce` is a text that was never used before."""
        ...

    def knows(self, name: str, /) -> bool:
        """Return whether this name could log in now."""
        ...


def failure_text(mechanism: str, *, again: bool = False) -> str:
    """Return Kafka's words for all failures of a login; `again` at a later one of a connection."""
    what = "re-authentication" if again else "authentication"
    return (
        f"Authentication failed during {what} due to invalid credentials with SASL mechanism "
        f"{mechanism}"
    )
