"""Who sends a request: Kafka's principals, and a caller as access is judged."""

from typing import NamedTuple

_MAPPED = "::ffff:"  # prefix of an IPv4 peer on an IPv6 socket


class Principal(NamedTuple):
    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> "Principal":
        """Read `Type:name`; a name may contain colons. Raise ValueError without both parts."""
        kind, separator, name = text.partition(":")
        if not (kind and separator and name):
            raise ValueError(f"{text!r} is no principal: write Type:name, such as User:alice")
        return cls(kind, name)


ANONYMOUS = Principal("User", "ANONYMOUS")


class Caller(NamedTuple):
    """A principal and the address that it comes from, as rules of access see them."""

    principal: Principal
    host: str
    by_token: bool = False  # logged in by a delegation token


def anonymous_at(host: str) -> Caller:
    return Caller(ANONYMOUS, plain_address(host))


def plain_address(host: str) -> str:
    """Return the address without the prefix of an IPv4 peer on an IPv6 socket."""
    return host.removeprefix(_MAPPED)
