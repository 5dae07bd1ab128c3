"""Bootstrap addresses as applications give them: text with commas, or a list of texts."""

from collections.abc import Sequence
from typing import TypeAlias

BootstrapLike: TypeAlias = str | Sequence[str]

# librdkafka takes these before an address.
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def join_addresses(bootstrap: BootstrapLike) -> str:
    """Return the addresses as text with commas. Raise TypeError for other objects."""
    if isinstance(bootstrap, str):
        return bootstrap
    if isinstance(bootstrap, list | tuple) and all(isinstance(each, str) for each in bootstrap):
        return ",".join(each.strip() for each in bootstrap)
    raise TypeError(
        f"bootstrap is text or a list of texts, e.g. '127.0.0.1:9092', not {bootstrap!r}"
    )


def address_problem(addresses: str) -> str:
    """Return why one of the addresses is a URL and no address of a broker; else ''."""
    for address in filter(None, (each.strip() for each in addresses.split(","))):
        scheme, separator, rest = address.rpartition("://")
        _user, at, host = rest.partition("/")[0].rpartition("@")
        if at:  # the text of the user may hold a password
            return (
                f"has a user before {host!r}; write {host}, and give the user as sasl.username "
                "and sasl.password"
            )
        if separator and scheme.upper() not in _PROTOCOLS:
            return f"has {address!r}; brokers do not speak {scheme}, write {host}"
    return ""
