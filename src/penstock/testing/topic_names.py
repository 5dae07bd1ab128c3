"""Names for topics that no other test, worker or run uses: they may share one cluster."""

import itertools
import os

BOOTSTRAP_VARIABLE = "PENSTOCK_TEST_BOOTSTRAP"  # the address of a cluster that tests should use
NAME_CHARACTERS_MAX = 200  # of a topic's 249, so that there is room for what makes it its own


class TopicNames:
    """Made once per process or class of tests: its names differ from all others by their ends."""

    def __init__(self) -> None:
        self._run = os.urandom(4).hex()
        self._numbers = itertools.count(1)

    def of(self, test: str) -> str:
        """The test's name, as Kafka allows it in a topic's, and what makes it its own."""
        legal = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in test)
        return f"{legal[:NAME_CHARACTERS_MAX]}-{self._run}-{next(self._numbers)}"
