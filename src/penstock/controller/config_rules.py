"""The controller's rules of configuration, from the table of keys."""

from collections.abc import Mapping, Sequence

from penstock.config import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    BrokerConfig,
    GroupConfig,
    Key,
    ValueType,
    check_dynamic,
    topic_config,
    validate_broker_changes,
    validate_broker_config,
    validate_client_metrics,
    validate_group_default,
    validate_group_overrides,
    validate_topic_overrides,
)
from penstock.config.values import to_text
from penstock.controller.image import (
    BROKER,
    CLIENT_METRICS,
    EVERY_BROKER,
    GROUP,
    TOPIC,
    ConfigResourceId,
)
from penstock.controller.settings import ConfigEntry
from penstock.errors import InvalidConfig, InvalidRequest


class TableRules:
    """Rules of this node's static configuration (see settings.ConfigRules)."""

    def __init__(self, broker: BrokerConfig) -> None:
        self._broker = broker
        self._asked: tuple[dict[str, str], ...] = ()
        self._effective: Sequence[ConfigEntry] = ()

    def validate(
        self,
        resource: ConfigResourceId,
        changes: Mapping[str, str | None],
        after: Mapping[str, str],
    ) -> None:
        """Raise InvalidConfig or InvalidRequest if the changes, or all values together, are not
        legal."""
        new = {name: value for name, value in changes.items() if value is not None}
        if resource.kind == TOPIC:
            # A key set by an older or newer release must not prevent other changes.
            known = {name: value for name, value in after.items() if name in TOPIC_KEYS}
            validate_topic_overrides({**new, **known}, self._broker)
        elif resource.kind == BROKER:
            self._validate_broker(resource, changes, new, after)
        elif resource.kind == GROUP:
            known = {name: value for name, value in after.items() if name in GROUP_KEYS}
            validate_group_overrides({**known, **new}, self._broker)
        elif resource.kind == CLIENT_METRICS:
            validate_client_metrics(new)

    def _validate_broker(
        self,
        resource: ConfigResourceId,
        changes: Mapping[str, str | None],
        new: Mapping[str, str],
        after: Mapping[str, str],
    ) -> None:
        """Raise InvalidRequest for a bad value of a broker key, as Kafka does (KAFKA-13609)."""
        check_dynamic(new, cluster_wide=resource == EVERY_BROKER)
        own, every = ({}, after) if resource == EVERY_BROKER else (after, {})
        try:
            for name, value in new.items():
                validate_broker_config(name, value)
                validate_group_default(name, value, self._broker)
            validate_broker_changes(changes.keys(), self._broker.with_dynamic(own, every))
        except InvalidConfig as error:
            raise InvalidRequest(error.message) from None

    def is_list(self, kind: int, name: str) -> bool:
        key = _key(kind, name)
        return key is not None and key.type is ValueType.LIST

    def default(self, kind: int, name: str) -> str | None:
        if kind == TOPIC and name in TOPIC_KEYS:
            return to_text(self._broker.topic_default(name))
        if kind == GROUP and name in GROUP_KEYS:
            return to_text(GroupConfig({}, self._broker).get(name))
        key = _key(kind, name)
        return None if key is None else to_text(key.default)

    def effective_topic_configs(
        self, overrides: Mapping[str, str], cluster: Mapping[str, str], broker: Mapping[str, str]
    ) -> Sequence[ConfigEntry]:
        asked = (dict(overrides), dict(cluster), dict(broker))
        if asked != self._asked:  # many topics of one request have the same settings
            self._effective = self._effective_topic_configs(*asked)
            self._asked = asked
        return self._effective

    def _effective_topic_configs(
        self, overrides: Mapping[str, str], cluster: Mapping[str, str], broker: Mapping[str, str]
    ) -> Sequence[ConfigEntry]:
        base = self._broker.with_dynamic(broker, cluster) if cluster or broker else self._broker
        effective = topic_config(overrides, base)
        return [
            ConfigEntry(
                name=name,
                value=to_text(effective.get(name)),
                source=int(effective.source(name)),
                read_only=False,
                sensitive=key.sensitive,
            )
            for name, key in sorted(TOPIC_KEYS.items())
            if not key.internal or name in overrides
        ]


def _key(kind: int, name: str) -> Key | None:
    tables = {TOPIC: TOPIC_KEYS, GROUP: GROUP_KEYS, CLIENT_METRICS: CLIENT_METRICS_KEYS}
    return tables.get(kind, BROKER_KEYS).get(name)
