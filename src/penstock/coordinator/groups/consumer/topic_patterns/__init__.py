"""Regular expressions over names of topics: RE2's syntax, matched without backtracking.

A name of a topic has one of 65 characters in each place, and the only question is whether the
whole name matches. Captures, laziness and most of Unicode say nothing about that; what is left
is small enough to keep here, and its cost is bounded by the length of the name.
"""

from penstock.coordinator.groups.consumer.topic_patterns.automaton import TopicPattern

__all__ = ["TopicPattern"]
