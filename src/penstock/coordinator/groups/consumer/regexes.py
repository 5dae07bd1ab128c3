"""Subscriptions by regular expression: which topics each of them stands for.

The heartbeat that brings an expression only checks it. A timer event right after that heartbeat
searches all names and writes the topics. Later only the names of topics that come or go are looked
at. Every so often, and when this node has begun to coordinate the group, all of it is done again.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.coordinator.cluster import ClusterView
from penstock.coordinator.groups.consumer.group import ConsumerGroup, ResolvedRegex
from penstock.coordinator.patterns import NamePattern
from penstock.errors import InvalidRegularExpression

PATTERNS_KEPT_MAX: Final = 1000
SHOWN_CHARACTERS_MAX: Final = 200


class Regexes:
    def __init__(self, cluster: ClusterView, refresh_interval_ms: int) -> None:
        self._cluster = cluster
        self._refresh_interval_ms = refresh_interval_ms
        self._patterns: dict[str, NamePattern] = {}

    def check(self, regex: str) -> None:
        """Raise InvalidRegularExpression if the expression cannot be resolved."""
        self._search(regex)  # only a search shows that an expression costs too much

    def _resolve(self, group: ConsumerGroup, regex: str, now_ms: int) -> ResolvedRegex:
        """Return all topics that match now and that the group may see. Raise
        InvalidRegularExpression for an illegal expression."""
        return ResolvedRegex(frozenset(_visible(group, self._search(regex))), now_ms)

    def is_due(self, group: ConsumerGroup, now_ms: int) -> bool:
        """Return whether all expressions of the group are due for another search."""
        if not group.regexes:
            return False
        oldest_ms = min(each.timestamp_ms for each in group.regexes.values())
        return group.regexes_stale or now_ms > oldest_ms + self._refresh_interval_ms

    def refreshed(
        self, group: ConsumerGroup, regexes: Mapping[str, ResolvedRegex], now_ms: int
    ) -> dict[str, ResolvedRegex]:
        found: dict[str, ResolvedRegex] = {}
        for regex, known in regexes.items():
            try:
                found[regex] = self._resolve(group, regex, now_ms)
            except InvalidRegularExpression:
                # A server with other limits resolved it: keep its topics.
                found[regex] = known._replace(timestamp_ms=now_ms)
        return found

    def changed_by(
        self, group: ConsumerGroup, names: Iterable[str], now_ms: int
    ) -> dict[str, ResolvedRegex]:
        """Return the expressions that match other topics after these were created or deleted."""
        changed: dict[str, ResolvedRegex] = {}
        for regex, known in group.regexes.items():
            topics = self._after_change(group, regex, known.topics, names)
            if topics != known.topics:
                changed[regex] = ResolvedRegex(topics, now_ms)
        return changed

    def _after_change(
        self, group: ConsumerGroup, regex: str, known: frozenset[str], names: Iterable[str]
    ) -> frozenset[str]:
        gone = [name for name in names if name in known and self._cluster.topic(name) is None]
        new = [name for name in names if name not in known and self._cluster.topic(name)]
        if new:
            try:
                new = list(_visible(group, self._pattern(regex).search(new)))
            except InvalidRegularExpression:
                new = []
        return known.difference(gone).union(new)

    def _search(self, regex: str) -> frozenset[str]:
        return frozenset(self._pattern(regex).search(self._cluster.topic_names()))

    def _pattern(self, regex: str) -> NamePattern:
        pattern = self._patterns.get(regex)
        if pattern is None:
            try:
                pattern = NamePattern(regex)
            except InvalidRegularExpression as invalid:
                raise InvalidRegularExpression(
                    f"SubscribedTopicRegex `{regex[:SHOWN_CHARACTERS_MAX]}` is not a valid "
                    f"regular expression: {invalid.message}."
                ) from None
            if len(self._patterns) >= PATTERNS_KEPT_MAX:
                self._patterns.clear()
            self._patterns[regex] = pattern
        return pattern


def _visible(group: ConsumerGroup, names: Iterable[str]) -> Iterable[str]:
    may_describe = group.may_describe
    return names if may_describe is None else filter(may_describe, names)
