"""All keys, by name, and the removed ones."""

from collections.abc import Mapping
from typing import NamedTuple

from penstock.config import (
    keys_client_metrics,
    keys_cluster,
    keys_group,
    keys_group_coordinator,
    keys_log,
    keys_network,
    keys_operations,
    keys_replication,
    keys_security,
    keys_share,
    keys_tiering,
    keys_topic,
    keys_transactions,
)
from penstock.config.key import Key

# The broker keys by section, as the reference shows them.
SECTIONS: Mapping[str, tuple[Key, ...]] = {
    "Node and cluster": keys_cluster.KEYS,
    "Network": keys_network.KEYS,
    "Log": keys_log.KEYS,
    "Replication": keys_replication.KEYS,
    "Groups and offsets": keys_group_coordinator.KEYS,
    "Transactions": keys_transactions.KEYS,
    "Security": keys_security.KEYS,
    "Metrics, quotas, plug-ins": keys_operations.KEYS,
    "Share groups": keys_share.KEYS,
    "Tiered storage": keys_tiering.KEYS,
}
BROKER_KEYS: Mapping[str, Key] = {key.name: key for keys in SECTIONS.values() for key in keys}
TOPIC_KEYS: Mapping[str, Key] = {key.name: key for key in keys_topic.KEYS}
GROUP_KEYS: Mapping[str, Key] = {key.name: key for key in keys_group.KEYS}
CLIENT_METRICS_KEYS: Mapping[str, Key] = {key.name: key for key in keys_client_metrics.KEYS}

# `listener.name.<listener>.<key>` restricts a key to one listener; the others belong to plug-ins.
LISTENER_PREFIX = "listener.name."
_PLUGIN_PREFIXES = ("config.providers.", "metrics.context.", "rlmm.config.", "rsm.config.")
# These have no effect without an authorizer.
AUTHORIZER_KEYS = ("allow.everyone.if.no.acl.found", "super.users")


class RemovedKey(NamedTuple):
    """A key of older Kafka releases."""

    stops: bool
    way_out: str


_ZOOKEEPER = RemovedKey(
    True,
    "there is no ZooKeeper here. Remove the zookeeper.* lines; the node keeps its own metadata "
    "(process.roles=broker,controller, which is the default)",
)
_LISTENERS = RemovedKey(True, "say it in listeners, e.g. listeners=PLAINTEXT://:9092")
_ADVERTISED = RemovedKey(
    True, "say it in advertised.listeners, e.g. advertised.listeners=PLAINTEXT://my.host:9092"
)
_GONE = RemovedKey(False, "Kafka 4 no longer has it; it is ignored")

_RETIRED: Mapping[str, RemovedKey] = {
    "host.name": _LISTENERS,
    "port": _LISTENERS,
    "advertised.host.name": _ADVERTISED,
    "advertised.port": _ADVERTISED,
    "delegation.token.master.key": RemovedKey(True, "it is called delegation.token.secret.key now"),
    "log.message.timestamp.difference.max.ms": RemovedKey(
        True, "use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms"
    ),
    "auto.include.jmx.reporter": _GONE,
    "broker.id.generation.enable": _GONE,
    "control.plane.listener.name": _GONE,
    "controlled.shutdown.max.retries": _GONE,
    "controlled.shutdown.retry.backoff.ms": _GONE,
    "group.coordinator.new.enable": _GONE,
    "inter.broker.protocol.version": _GONE,
    "leader.imbalance.per.broker.percentage": _GONE,
    "log.message.downconversion.enable": _GONE,
    "log.message.format.version": _GONE,
    "offsets.commit.required.acks": _GONE,
    "password.encoder.cipher.algorithm": _GONE,
    "password.encoder.iterations": _GONE,
    "password.encoder.key.length": _GONE,
    "password.encoder.keyfactory.algorithm": _GONE,
    "password.encoder.old.secret": _GONE,
    "password.encoder.secret": _GONE,
}


def removed_key(name: str) -> RemovedKey | None:
    """Return the fate of a removed key; None for other names."""
    return _ZOOKEEPER if name.startswith("zookeeper.") else _RETIRED.get(name)


def find_broker_key(name: str) -> Key | None:
    """Return the key of a name, also if the name is restricted to one listener."""
    key = BROKER_KEYS.get(name)
    if key is None and name.startswith(LISTENER_PREFIX):
        _, _, rest = name.removeprefix(LISTENER_PREFIX).partition(".")
        # A SASL mechanism may come between: listener.name.x.scram-sha-512.sasl.jaas.config.
        key = BROKER_KEYS.get(rest) or BROKER_KEYS.get(rest.partition(".")[2])
    return key


def belongs_to_plugin(name: str) -> bool:
    return name.startswith(_PLUGIN_PREFIXES)


def nearest(name: str, keys: Mapping[str, Key]) -> str | None:
    """Return the known key most similar to `name`; None if none is."""
    from difflib import get_close_matches

    found = get_close_matches(name.lower().replace("_", "."), keys, n=1, cutoff=0.75)
    return found[0] if found else None
