"""Classic consumer groups: the members assign the partitions, the coordinator keeps them in step.

`generation.py` and `group.py` are the state, `requests.py` handles requests, timers and records. A
record holds the last stable generation. The record is written after the leader's assignment, the
leave of the last member, or a static member's new id. The steps between two rests are in no record:
if the coordinator fails, members ask again.
"""

from penstock.coordinator.groups.classic.generation import (
    ClassicMember,
    ClassicState,
    OfferedProtocol,
)
from penstock.coordinator.groups.classic.group import ClassicGroup
from penstock.coordinator.groups.classic.outcome_builder import cancel_timers
from penstock.coordinator.groups.classic.requests import ClassicRequests

__all__ = [
    "ClassicGroup",
    "ClassicMember",
    "ClassicRequests",
    "ClassicState",
    "OfferedProtocol",
    "cancel_timers",
]
