"""Kafka's principals, and callers as rules of access see them."""

from typing import NamedTuple

_MAPPED = "::ffff:"  # prefix of an IPv4 peer on an IPv6 socket


class Principal(NamedTuple):
    name: str
    type: str = "User"

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> "Principal":
        """Parse `User:alice`. Raise ValueError without a type."""
        kind, colon, name = text.partition(":")
        if not colon or not kind or not name:
            raise ValueError(f"{text!r} is no principal: it looks like User:alice")
        return cls(name, kind)


ANONYMOUS = Principal("ANONYMOUS")


class Caller(NamedTuple):
    """A principal and the address that it comes from, as rules of access see them."""

    principal: Principal
    host: str
    by_token: bool = False  # logged in by a delegation token


def anonymous_at(host: str) -> Caller:
    return Caller(ANONYMOUS, plain_address(host))


def plain_address(host: str) -> str:
    """Return the one text of an address: without the prefix of an IPv4 peer on an IPv6 socket, and
    with `::` for the zeros that Java writes."""
    if ":" not in host:
        return host
    from ipaddress import ip_address

    plain = host.removeprefix(_MAPPED)
    try:
        return str(ip_address(plain))
    except ValueError:
        return plain
