"""Regular expressions over names: RE2's syntax, matched without backtracking.

Of topics and transactional ids the only question is whether the whole name matches, and hardly a
name leaves ASCII. Captures, laziness and most of Unicode do not matter for that. The rest is small
enough to keep here, and its cost is bounded by the length of the name.
"""

from penstock.coordinator.patterns.automaton import NamePattern

__all__ = ["NamePattern"]
