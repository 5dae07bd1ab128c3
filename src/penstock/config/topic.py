"""A topic's configuration: its own overrides above the broker's values."""

from collections.abc import Mapping

from penstock.config.broker import BrokerConfig, ConfigSource, Synonym
from penstock.config.key import Value
from penstock.config.table import TOPIC_KEYS
from penstock.config.values import parse_known, to_text
from penstock.config.view import ConfigView


class TopicConfig(ConfigView):
    """Light enough for tens of thousands: only the overrides are its own."""

    __slots__ = ("_broker", "_overrides", "_values", "ignored")

    def __init__(self, overrides: Mapping[str, str], broker: BrokerConfig) -> None:
        self._broker = broker
        self._overrides = dict(overrides)
        self._values, self.ignored = parse_known(overrides, TOPIC_KEYS)

    @property
    def overrides(self) -> Mapping[str, str]:
        """Return the topic's own settings as written, by key."""
        return self._overrides

    def get(self, name: str) -> Value:
        if name in self._values:
            return self._values[name]
        return self._broker.topic_default(name)

    def synonyms(self, name: str) -> tuple[Synonym, ...]:
        """Return all possible sources of the value, strongest first."""
        own: tuple[Synonym, ...] = ()
        if name in self._values:
            own = (Synonym(name, to_text(self._values[name]), ConfigSource.TOPIC),)
        synonyms = TOPIC_KEYS[name].synonyms
        if not synonyms:
            return own
        strongest = synonyms[0][0]
        return own + self._broker.synonyms(strongest)

    def source(self, name: str) -> ConfigSource:
        found = self.synonyms(name)
        return found[0].source if found else ConfigSource.DEFAULT

    @property
    def segment_bytes(self) -> int:
        """Return the segment size. The key for tests, internal.segment.bytes, wins over
        segment.bytes."""
        small = self.get("internal.segment.bytes")
        return small if isinstance(small, int) else self.integer("segment.bytes")


def topic_config(overrides: Mapping[str, str], broker: BrokerConfig) -> TopicConfig:
    """Return the effective configuration of a topic with these overrides on this broker."""
    return TopicConfig(overrides, broker)


def default_from_broker(name: str, broker: BrokerConfig) -> Value:
    """Return the value that a broker gives to a topic key."""
    key = TOPIC_KEYS[name]
    if not key.synonyms:
        return key.default
    # The strongest broker key includes its weaker ones, with their units.
    return broker.get(key.synonyms[0][0])
