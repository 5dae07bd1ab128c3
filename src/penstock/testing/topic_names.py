"""Topic names that no other test, worker or run uses, so that all can share one cluster."""

import itertools
import os

BOOTSTRAP_VARIABLE = "PENSTOCK_TEST_BOOTSTRAP"  # the address of a cluster for tests
NAME_CHARACTERS_MAX = 200  # of a topic's 249, which leaves room for a unique suffix


class TopicNames:
    """Made once per process or test class: the names differ from all others by their suffix."""

    def __init__(self) -> None:
        self._run = os.urandom(4).hex()
        self._numbers = itertools.count(1)

    def of(self, test: str) -> str:
        """Return the test's name, as Kafka allows it for a topic, and a unique suffix."""
        legal = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in test)
        return f"{legal[:NAME_CHARACTERS_MAX]}-{self._run}-{next(self._numbers)}"
