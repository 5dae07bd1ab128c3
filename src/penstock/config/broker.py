"""A broker's configuration: immutable and typed, with the source of each value."""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

from penstock.config.allowed import address_counts, host_port
from penstock.config.key import Mode, Value, ValueType
from penstock.config.listeners import (
    EVERY_INTERFACE,
    OWN_HOSTS,
    TLS_PROTOCOLS,
    Address,
    ListenerAddress,
    VoterAddress,
    parse_addresses,
    parse_listeners,
    parse_protocol_map,
    parse_voters,
)
from penstock.config.table import BROKER_KEYS, LISTENER_PREFIX, find_broker_key
from penstock.config.values import parse, to_text
from penstock.config.view import ConfigView
from penstock.errors import InvalidConfig

NODE_ID_DEFAULT = 1
ROLES_DEFAULT = ("broker", "controller")


class ConfigSource(IntEnum):
    """The source of a value; the numbers are those of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


class Setting(NamedTuple):
    """A static value as written, and its location: `server.properties line 3`."""

    text: str
    where: str


class Synonym(NamedTuple):
    """One possible source of a value; the first one counts. `value` is None if secret."""

    name: str
    value: str | None
    source: ConfigSource


class BrokerConfig(ConfigView):
    """Built by `load`, or by `BrokerConfig.of` without a file. The values have passed the checks of
    their own keys; `check.py` has the checks across keys."""

    def __init__(
        self,
        static: Mapping[str, Setting],
        per_broker: Mapping[str, str] | None = None,
        cluster_default: Mapping[str, str] | None = None,
    ) -> None:
        """Raise InvalidConfig for a bad static value; ignore bad dynamic ones."""
        values = {name: _parse(name, setting.text) for name, setting in static.items()}
        self._values: dict[str, Value] = {n: v for n, v in values.items() if v is not None}
        self._static = {name: static[name] for name in self._values}
        self._mirror_node_id()
        self._ignored: list[str] = []
        self._cluster_default = self._accept(cluster_default or {}, cluster_wide=True)
        self._per_broker = self._accept(per_broker or {}, cluster_wide=False)
        self._topic_defaults: dict[str, Value] = {}

    def _mirror_node_id(self) -> None:
        """Give node.id and broker.id, two names of one number, the value that either has."""
        for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
            if name in self._static and other not in self._static:
                self._static[other] = self._static[name]
                self._values[other] = self._values[name]

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> "BrokerConfig":
        """Return a configuration from plain texts, checked like a file's."""
        from penstock.config.check import check_broker

        config = cls({name: Setting(text, "settings") for name, text in settings.items()})
        check_broker(config)
        return config

    def with_dynamic(
        self, per_broker: Mapping[str, str], cluster_default: Mapping[str, str]
    ) -> "BrokerConfig":
        """Return the same static settings under other dynamic ones."""
        return BrokerConfig(self._static, per_broker, cluster_default)

    def _accept(self, dynamic: Mapping[str, str], *, cluster_wide: bool) -> dict[str, str]:
        """Return the valid dynamic values. They come from the metadata log, where another release
        may have written values that this one rejects: that must not stop a node."""
        accepted: dict[str, str] = {}
        for name, text in dynamic.items():
            key = find_broker_key(name)
            per_broker_only = cluster_wide and key is not None and key.mode is Mode.PER_BROKER
            try:
                if key is None or key.mode is Mode.READ_ONLY or per_broker_only:
                    raise InvalidConfig(f"{name} cannot be set this way")
                self._values[name] = parse(key, text)
            except InvalidConfig as problem:
                self._ignored.append(problem.message)
            else:
                accepted[name] = text
        return accepted

    @property
    def ignored(self) -> tuple[str, ...]:
        """Return the reasons for ignored dynamic values, one sentence each."""
        return tuple(self._ignored)

    # -- values

    def get(self, name: str) -> Value:
        """Return the effective value, through weaker keys if the key itself is not set."""
        if name in self._values:
            return self._values[name]
        if name in ("node.id", "broker.id"):
            return self.node_id
        key = BROKER_KEYS[name]
        for weaker, factor in key.synonyms:
            if weaker in self._values:
                return _scaled(self._values[weaker], factor)
        if key.default is None:
            for weaker, factor in key.synonyms:
                if (default := BROKER_KEYS[weaker].default) is not None:
                    return _scaled(default, factor)
        return key.default

    def written(self, name: str) -> str | None:
        """Return the value of exactly this key as DescribeConfigs shows it; None if not set."""
        key = find_broker_key(name)
        assert key is not None, f"{name} is no key"
        if name in ("node.id", "broker.id"):
            return str(self.node_id)
        return to_text(self._values.get(name, key.default if key.name == name else None))

    def synonyms(self, name: str) -> tuple[Synonym, ...]:
        """Return all possible sources of the value, strongest first."""
        return tuple(self._synonyms(name))

    def _synonyms(self, name: str) -> Iterator[Synonym]:
        key = find_broker_key(name)
        assert key is not None, f"{name} is no key"
        names = [name, *(weaker for weaker, _ in key.synonyms)]
        for source, texts in (
            (ConfigSource.DYNAMIC_BROKER, self._per_broker),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, self._cluster_default),
            (ConfigSource.STATIC_BROKER, {n: s.text for n, s in self._static.items()}),
        ):
            for each in names:
                if each in texts:
                    yield Synonym(each, None if key.sensitive else texts[each], source)
        if key.name == name and key.default is not None:
            yield Synonym(name, to_text(key.default), ConfigSource.DEFAULT)

    def source(self, name: str) -> ConfigSource:
        found = self.synonyms(name)
        return found[0].source if found else ConfigSource.DEFAULT

    def where(self, name: str) -> str:
        """Return the location of the value, for people."""
        found = self.synonyms(name)
        match found[0] if found else None:
            case Synonym(name=key, source=ConfigSource.STATIC_BROKER):
                return self._static[key].where
            case Synonym(source=ConfigSource.DYNAMIC_BROKER):
                return "dynamic, this broker"
            case Synonym(source=ConfigSource.DYNAMIC_DEFAULT_BROKER):
                return "dynamic, all brokers"
            case _:
                return "default"

    @property
    def static(self) -> Mapping[str, Setting]:
        """Return the settings of the start, by key."""
        return self._static

    @property
    def set_names(self) -> tuple[str, ...]:
        """Return the keys with a setting, ordered by name."""
        return tuple(sorted({*self._static, *self._cluster_default, *self._per_broker}))

    @property
    def cluster_default(self) -> Mapping[str, str]:
        """Return the dynamic values of all brokers as written, by key."""
        return self._cluster_default

    def topic_default(self, name: str) -> Value:
        """Return the value of a topic key that the topic itself does not set."""
        if name not in self._topic_defaults:
            from penstock.config.topic import default_from_broker

            self._topic_defaults[name] = default_from_broker(name, self)
        return self._topic_defaults[name]

    def own_value(self, name: str) -> Value:
        """Return the value of exactly this key, also of one with a prefix; None if not set."""
        return self._values.get(name)

    def of_listener(self, listener: str, name: str) -> int:
        """Return an integer for one listener: listener.name.<listener>.<name>, or name."""
        own = self._values.get(f"{LISTENER_PREFIX}{listener.lower()}.{name}")
        return own if isinstance(own, int) else self.integer(name)

    def of_listener_alone(self, listener: str, name: str) -> str | None:
        """Return the text of listener.name.<listener>.<name>; None if that is not set."""
        return to_text(self._values.get(f"{LISTENER_PREFIX}{listener.lower()}.{name}"))

    def tls_properties(self, listener: str) -> dict[str, str]:
        """Return the keys of TLS for one listener, without its prefix."""
        found: dict[str, str] = {}
        for name in BROKER_KEYS:
            if name.startswith("ssl."):
                own = self.of_listener_alone(listener, name)
                text = to_text(self.get(name)) if own is None else own
                if text is not None:
                    found[name] = text
        return found

    # -- parsed values

    @cached_property
    def connections_per_address(self) -> Mapping[str, int]:
        """Return the exceptions to max.connections.per.ip, by address."""
        return address_counts(self.text("max.connections.per.ip.overrides"))

    @cached_property
    def node_id(self) -> int:
        for name in ("node.id", "broker.id"):
            value = self._values.get(name)
            if isinstance(value, int):
                return value
        return NODE_ID_DEFAULT

    @cached_property
    def roles(self) -> tuple[str, ...]:
        return self.texts("process.roles") or ROLES_DEFAULT

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    @cached_property
    def controller_listener_names(self) -> tuple[str, ...]:
        return tuple(name.upper() for name in self.texts("controller.listener.names"))

    @cached_property
    def security_protocols(self) -> Mapping[str, str]:
        """Return the security protocol of each listener name."""
        protocols = parse_protocol_map(self.text("listener.security.protocol.map"))
        if "listener.security.protocol.map" not in self._values:
            for name in self.controller_listener_names:
                protocols.setdefault(name, "PLAINTEXT")
        return protocols

    @cached_property
    def listeners(self) -> tuple[ListenerAddress, ...]:
        return parse_listeners("listeners", self.texts("listeners"), self.security_protocols)

    @cached_property
    def advertised_listeners(self) -> tuple[ListenerAddress, ...]:
        """Return the addresses for clients and nodes; the node fills in port 0 and an empty host.
        A controller listener that is not advertised has its own address, and this machine's name
        if that is every interface."""
        key = "advertised.listeners"
        advertised = parse_listeners(key, self.texts(key), self.security_protocols)
        named = {listener.name for listener in advertised}
        controllers = self.controller_listener_names
        inherited = (
            each._replace(host="")
            if each.name in controllers and each.host in EVERY_INTERFACE
            else each
            for each in self.listeners
            if each.name in controllers or not advertised
        )
        return advertised + tuple(each for each in inherited if each.name not in named)

    @property
    def broker_listeners(self) -> tuple[ListenerAddress, ...]:
        """Return the listeners of clients and brokers."""
        names = self.controller_listener_names
        return tuple(each for each in self.listeners if each.name not in names)

    @property
    def controller_listeners(self) -> tuple[ListenerAddress, ...]:
        names = self.controller_listener_names
        return tuple(each for each in self.listeners if each.name in names)

    @cached_property
    def inter_broker_listener_name(self) -> str:
        if (name := self.get("inter.broker.listener.name")) is not None:
            return str(name).upper()
        wanted = self.text("security.inter.broker.protocol")
        for listener in self.broker_listeners:
            if listener.protocol == wanted:
                return listener.name
        return wanted

    @property
    def link_protocols(self) -> tuple[str, ...]:
        """Return the protocols by which this node reaches brokers and controllers."""
        names = (self.inter_broker_listener_name, *self.controller_listener_names[:1])
        return tuple(self.security_protocols.get(each, "PLAINTEXT") for each in names)

    def is_secured(self, listener: str) -> bool:
        """Return whether a listener, here or of other nodes, speaks TLS."""
        return self.security_protocols.get(listener, "PLAINTEXT") in TLS_PROTOCOLS

    @cached_property
    def voters(self) -> tuple[VoterAddress, ...]:
        return parse_voters(self.texts("controller.quorum.voters"))

    @cached_property
    def bootstrap_controllers(self) -> tuple[Address, ...]:
        key = "controller.quorum.bootstrap.servers"
        return parse_addresses(key, self.texts(key))

    @property
    def controllers_text(self) -> str:
        """Return the addresses of the controllers with the key that names them, for people."""
        static = "controller.quorum.voters"
        key = static if self.voters else "controller.quorum.bootstrap.servers"
        return f"{', '.join(self.texts(key))} ({key})"

    @cached_property
    def sole_voter(self) -> bool:
        """Return whether this node is the whole quorum. Such a node may begin a quorum in an empty
        directory."""
        if not self.is_controller:
            return False
        if self.voters:
            return [voter.node_id for voter in self.voters] == [self.node_id]
        return all(map(self.is_own_controller, self.bootstrap_controllers))

    def is_own_controller(self, address: Address, machine: str = "localhost") -> bool:
        """Return whether the controller of this node listens at an address; `machine` is the name
        of this machine."""
        own = {*OWN_HOSTS, machine}
        ports = set[int]()
        for listener in self.advertised_listeners + self.listeners:
            if listener.name in self.controller_listener_names:
                own.add(listener.host)
                ports.add(listener.port)
        return self.is_controller and address.host in own and address.port in ports

    @cached_property
    def log_dirs(self) -> tuple[str, ...]:
        return tuple(directory for directory in self.texts("log.dirs") if directory)

    @property
    def metadata_log_dir(self) -> str:
        directory = self.get("metadata.log.dir")
        return str(directory) if directory else self.log_dirs[0]

    @cached_property
    def metrics_listener(self) -> Address | None:
        found = host_port(self.text("metrics.listener"))
        return None if found is None else Address(*found)

    @property
    def group_access(self) -> bool:
        """Return whether the group of the operating system's user may read new files."""
        return self.boolean("log.dirs.group.access")

    @property
    def durability(self) -> str:
        """Return log.durability: `fsync` or `page-cache`."""
        return self.text("log.durability")


def _parse(name: str, text: str) -> Value:
    key = find_broker_key(name)
    if key is None:
        raise InvalidConfig(f"{name} is no broker key")
    # An empty text leaves a key without a default unset, as in Kafka's files.
    if not text.strip() and key.default is None and key.type is not ValueType.PASSWORD:
        return None
    return parse(key, text)


def _scaled(value: Value, factor: int) -> Value:
    """Convert into the stronger key's unit; a negative number means "no limit" in every unit."""
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    return value * factor if value >= 0 else value
