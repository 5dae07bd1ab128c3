"""Which topics an expression chooses, as Kafka's tools read one: commas mean "or"."""

import re

from penstock.model import INTERNAL_TOPICS


class TopicFilter:
    """A regular expression over whole names. re.error if it is none.

    Kafka's tools take Java's expressions; what topics are chosen with is the same in Python's.
    """

    def __init__(self, text: str) -> None:
        self._pattern = re.compile(text.strip().replace(",", "|").replace(" ", "").strip("\"'"))

    def __call__(self, topic: str) -> bool:
        return self._pattern.fullmatch(topic) is not None


def visible(topic: str, wanted: TopicFilter | None, *, without_internal: bool) -> bool:
    """Whether a topic is chosen; None chooses all."""
    if without_internal and topic in INTERNAL_TOPICS:
        return False
    return wanted is None or wanted(topic)
