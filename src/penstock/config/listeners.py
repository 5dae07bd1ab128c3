"""Addresses in the configuration: listeners, advertised listeners, quorum voters.

Every function takes texts and returns values; WrongSetting explains an invalid text.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.config.values import WrongSetting

PORT_MAX = 65535
PROTOCOL_MAP = "listener.security.protocol.map"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TLS_PROTOCOLS = ("SSL", "SASL_SSL")
SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
EVERY_INTERFACE = ("0.0.0.0", "::")
OWN_HOSTS = ("localhost", "127.0.0.1", "::1")

_LISTENER = re.compile(r"([^:/\s]+)://(?:\[([^\]\s]*)\]|([^:/\s\[\]]*)):([0-9]+)")
_ADDRESS = re.compile(r"(?:\[([^\]\s]+)\]|([^:/@\s\[\]]+)):([0-9]+)")


class ListenerAddress(NamedTuple):
    """One address with its name and protocol. An empty host is every interface (to listen on), or
    this machine's own name (to advertise)."""

    name: str
    host: str
    port: int
    protocol: str

    def __str__(self) -> str:
        return f"{self.name}://{_host_text(self.host)}:{self.port}"


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{_host_text(self.host)}:{self.port}"


class VoterAddress(NamedTuple):
    """One controller of a fixed quorum."""

    node_id: int
    address: Address

    def __str__(self) -> str:
        return f"{self.node_id}@{self.address}"


def _host_text(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def parse_protocol_map(text: str) -> dict[str, str]:
    """Parse `NAME:PROTOCOL,...` into a dict."""
    protocols: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, _, protocol = (part.strip().upper() for part in pair.partition(":"))
        if protocol not in PROTOCOLS:
            raise WrongSetting(
                f"{PROTOCOL_MAP}: {pair!r} is not NAME:PROTOCOL with a protocol "
                f"of {', '.join(PROTOCOLS)}",
                PROTOCOL_MAP,
            )
        if name in protocols:
            raise WrongSetting(f"{PROTOCOL_MAP} names {name} twice", PROTOCOL_MAP)
        protocols[name] = protocol
    return protocols


def parse_listeners(
    key: str, texts: Sequence[str], protocols: Mapping[str, str]
) -> tuple[ListenerAddress, ...]:
    """Return the listeners of `key`, each with the protocol of its name. WrongSetting has one line
    for each invalid text."""
    found: list[ListenerAddress] = []
    problems: list[str] = []
    for text in texts:
        try:
            listener = _listener(key, text, protocols)
        except WrongSetting as problem:
            problems.append(problem.message)
            continue
        if any(listener.name == other.name for other in found):
            problems.append(f"{key} names {listener.name} twice")
        found.append(listener)
    if problems:
        raise WrongSetting("\n".join(problems), key)
    return tuple(found)


def _listener(key: str, text: str, protocols: Mapping[str, str]) -> ListenerAddress:
    match = _LISTENER.fullmatch(text)
    if match is None:
        raise WrongSetting(
            f"{key}: {text!r} is not NAME://host:port, e.g. PLAINTEXT://127.0.0.1:9092", key
        )
    name = match[1].upper()
    port = _port(key, text, match[4])
    if name not in protocols:
        raise WrongSetting(
            f"{key}: nothing says which protocol {name} speaks; add "
            f"{PROTOCOL_MAP}={name}:PLAINTEXT",
            key,
        )
    return ListenerAddress(name, match[2] or match[3] or "", port, protocols[name])


def check_ports(listeners: Sequence[ListenerAddress]) -> None:
    """Reject one port for two listeners."""
    taken: dict[int, ListenerAddress] = {}
    for listener in listeners:
        other = taken.setdefault(listener.port, listener)
        if other is not listener and listener.port and _share_interface(other, listener):
            reason = f"{other} and {listener} use the same port"
            raise WrongSetting(f"listeners: {reason}", "listeners")


def _share_interface(one: ListenerAddress, other: ListenerAddress) -> bool:
    everywhere = ("", *EVERY_INTERFACE)
    return one.host == other.host or one.host in everywhere or other.host in everywhere


def parse_addresses(key: str, texts: Sequence[str]) -> tuple[Address, ...]:
    """Parse texts of the form `host:port`."""
    return tuple(_address(key, text, text) for text in texts)


def parse_voters(texts: Sequence[str]) -> tuple[VoterAddress, ...]:
    """Parse texts of the form `id@host:port`, as in controller.quorum.voters."""
    key = "controller.quorum.voters"
    voters: list[VoterAddress] = []
    for text in texts:
        node, at, address = text.partition("@")
        if not at or not node.isdecimal():
            raise WrongSetting(f"{key}: {text!r} is not id@host:port, e.g. 1@localhost:9093", key)
        voter = VoterAddress(int(node), _address(key, text, address))
        if any(voter.node_id == other.node_id for other in voters):
            raise WrongSetting(f"{key} names node {voter.node_id} twice", key)
        voters.append(voter)
    return tuple(voters)


def _address(key: str, whole: str, text: str) -> Address:
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise WrongSetting(f"{key}: {whole!r} has no host:port, e.g. localhost:9093", key)
    return Address(match[1] or match[2], _port(key, whole, match[3]))


def _port(key: str, text: str, digits: str) -> int:
    port = int(digits)
    if port > PORT_MAX:
        raise WrongSetting(f"{key}: {text!r} has a port above {PORT_MAX}", key)
    return port
