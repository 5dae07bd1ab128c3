"""Entities of kafka-configs: topics, brokers, groups, users and clients, from the options."""

import ipaddress
import socket
from dataclasses import dataclass

from penstock.cli.kafka.framework.options import GivenOptions
from penstock.cli.kafka.framework.runner import CommandRejected

TOPICS, CLIENTS, USERS, BROKERS, IPS = "topics", "clients", "users", "brokers", "ips"
BROKER_LOGGERS, CLIENT_METRICS, GROUPS = "broker-loggers", "client-metrics", "groups"
TYPES = (TOPICS, CLIENTS, USERS, BROKERS, IPS, CLIENT_METRICS, GROUPS, BROKER_LOGGERS)
WITH_DEFAULTS = (USERS, CLIENTS, BROKERS, IPS)

# Options that name an entity, in their order of precedence.
FLAGS = {
    "topic": TOPICS,
    "client": CLIENTS,
    "user": USERS,
    "broker": BROKERS,
    "broker-logger": BROKER_LOGGERS,
    "ip": IPS,
    "client-metrics": CLIENT_METRICS,
    "group": GROUPS,
}
DEFAULTS_FLAGS = {
    "client-defaults": CLIENTS,
    "user-defaults": USERS,
    "broker-defaults": BROKERS,
    "ip-defaults": IPS,
}


@dataclass(frozen=True, slots=True)
class Entities:
    """One entity, or a user and a client. An empty name is the default of its type; a missing
    name means all entities of its type."""

    types: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def type(self) -> str:
        return self.types[0]

    @property
    def name(self) -> str | None:
        return self.names[0] if self.names else None


def entities_of(given: GivenOptions) -> Entities:
    flags = [name for name in FLAGS if given.has(name)]
    defaults = [name for name in DEFAULTS_FLAGS if given.has(name)]
    types = [
        *given.texts("entity-type"),
        *(FLAGS[name] for name in flags),
        *(DEFAULTS_FLAGS[name] for name in defaults),
    ]
    waiting = iter(given.texts("entity-name"))
    names = [
        next(waiting) if said == "entity-name" else ""
        for said in given.order
        if said in ("entity-name", "entity-default")
    ]
    names += [given.required(name) for name in flags]
    names += [""] * len(defaults)
    entities = Entities(tuple(types), tuple(names))
    _check_types(entities)
    if given.any_of("entity-name", "entity-type", "entity-default") and (flags or defaults):
        raise CommandRejected(
            "--entity-{type,name,default} should not be used in conjunction with specific entity "
            "flags"
        )
    _check_names(entities)
    return entities


def _check_types(entities: Entities) -> None:
    types = entities.types
    twice = sorted({each for each in types if types.count(each) > 1})
    if twice:
        raise CommandRejected(f"Duplicate entity type(s) specified: {','.join(twice)}")
    for each in types:
        if each not in TYPES:
            raise CommandRejected(
                f"Invalid entity type {each}, the entity type must be one of {', '.join(TYPES)} "
                "with a --bootstrap-server or --bootstrap-controller argument"
            )
    if not types:
        raise CommandRejected("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {USERS, CLIENTS}:
        raise CommandRejected(
            f"Only '{USERS}' and '{CLIENTS}' entity types may be specified together"
        )


def _check_names(entities: Entities) -> None:
    named = [name for name in entities.names if name]
    if {BROKERS, BROKER_LOGGERS} & {*entities.types}:
        for name in named:
            if not name.isdecimal():
                raise CommandRejected(
                    f"The entity name for {entities.type} must be a valid integer broker id, but "
                    f"it is: {name}"
                )
    if IPS in entities.types:
        for name in named:
            if not _is_host(name):
                raise CommandRejected(
                    f"The entity name for {IPS} must be a valid IP or resolvable host, but it is: "
                    f"{name}"
                )


def _is_host(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        try:
            socket.getaddrinfo(name, None)
        except OSError:
            return False
    return True
