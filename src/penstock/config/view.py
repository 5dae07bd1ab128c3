"""Typed access to configuration values of a broker, a topic or a group."""

from abc import ABC, abstractmethod

from penstock.config.key import Value


class ConfigView(ABC):
    """Values by key. The typed getters are for code that knows its key's type; a wrong type or an
    unknown key is a mistake in the code."""

    @abstractmethod
    def get(self, name: str) -> Value:
        """Return the effective value; raise KeyError for an unknown key."""

    def boolean(self, name: str) -> bool:
        value = self.get(name)
        assert isinstance(value, bool), f"{name} is {value!r}, not a boolean"
        return value

    def integer(self, name: str) -> int:
        value = self.get(name)
        assert isinstance(value, int), f"{name} is {value!r}, not an integer"
        return value

    def number(self, name: str) -> float:
        value = self.get(name)
        assert isinstance(value, int | float), f"{name} is {value!r}, not a number"
        return value

    def text(self, name: str) -> str:
        value = self.get(name)
        assert isinstance(value, str), f"{name} is {value!r}, not a string"
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list; a list key that is not set is empty."""
        value = self.get(name)
        assert value is None or isinstance(value, tuple), f"{name} is {value!r}, not a list"
        return value or ()
