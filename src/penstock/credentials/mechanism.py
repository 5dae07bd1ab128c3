"""The client's side of a SASL login, for clients and for the links of nodes.

A mechanism makes one exchange per connection: `first` returns the client's first message, `answer`
its reply to a challenge, None at the end.
"""

from typing import Protocol


class AuthenticationFailed(Exception):
    """One side did not prove itself to the other; the text says which and why."""


class Exchange(Protocol):
    """One authentication in progress."""

    def first(self) -> bytes: ...

    def answer(self, challenge: bytes) -> bytes | None: ...


class Mechanism(Protocol):
    """Credentials, and the exchange that proves them."""

    @property
    def name(self) -> str: ...

    def begin(self, nonce: str, /) -> Exchange:
        """Begin an exchange; `nonce` is a text that was never used before."""
        ...
