"""A group's configuration: its own settings above the broker's."""

from collections.abc import Mapping

from penstock.config.broker import BrokerConfig, ConfigSource, Synonym
from penstock.config.key import Value
from penstock.config.table import GROUP_KEYS
from penstock.config.values import parse_known, to_text
from penstock.config.view import ConfigView


class GroupConfig(ConfigView):
    """The settings of one group as written; a coordinator keeps them within its broker's current
    limits."""

    def __init__(self, overrides: Mapping[str, str], broker: BrokerConfig) -> None:
        self._broker = broker
        self._values, _ = parse_known(overrides, GROUP_KEYS)

    def get(self, name: str) -> Value:
        if name in self._values:
            return self._values[name]
        key = GROUP_KEYS[name]
        return self._broker.get(key.synonyms[0][0]) if key.synonyms else key.default

    def synonyms(self, name: str) -> tuple[Synonym, ...]:
        """Return all possible sources of the value, strongest first."""
        own: tuple[Synonym, ...] = ()
        if name in self._values:
            own = (Synonym(name, to_text(self._values[name]), ConfigSource.GROUP),)
        key = GROUP_KEYS[name]
        if not key.synonyms:
            return (*own, Synonym(name, to_text(key.default), ConfigSource.DEFAULT))
        return own + self._broker.synonyms(key.synonyms[0][0])
