"""Classic consumer groups: the members assign the partitions, the coordinator keeps them in step.

`group.py` is what a group is, `work.py` what it does with requests; the others are its parts.
A classic group lives in memory. Its record says what it was when it last came to rest: after the
leader's assignment, when the last member left, when a static member got a new id. What happens
between two rests (who rejoins, who waits) is lost with the machine, and its members come again.
"""

from penstock.coordinator.groups.classic.group import (
    ClassicGroup,
    ClassicMember,
    ClassicState,
    OfferedProtocol,
)
from penstock.coordinator.groups.classic.turn import timers_of
from penstock.coordinator.groups.classic.work import ClassicWork

__all__ = [
    "ClassicGroup",
    "ClassicMember",
    "ClassicState",
    "ClassicWork",
    "OfferedProtocol",
    "timers_of",
]
