"""Topics that an expression of Kafka's tools chooses: commas mean "or"."""

import re

from penstock.cli.kafka.framework.runner import CommandRejected
from penstock.model import INTERNAL_TOPICS


class TopicFilter:
    """A regular expression over whole names; CommandRejected for other texts.

    Kafka's tools take Java's expressions. Python's agree with them on names of topics.
    """

    def __init__(self, text: str) -> None:
        expression = text.strip().replace(",", "|").replace(" ", "").strip("\"'")
        try:
            self._pattern = re.compile(expression)
        except re.error as problem:
            raise CommandRejected(f"{text} is no regular expression: {problem}") from None

    def __call__(self, topic: str) -> bool:
        return self._pattern.fullmatch(topic) is not None


def visible(topic: str, wanted: TopicFilter | None, *, without_internal: bool) -> bool:
    """Return whether a topic is chosen; None chooses all."""
    if without_internal and topic in INTERNAL_TOPICS:
        return False
    return wanted is None or wanted(topic)
