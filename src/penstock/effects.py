"""What a machine asks of its node: values, performed by the shell in one order.

Persist, sync, send, reply. A machine never performs anything itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Wake the machine with `event`, `after_ms` from now. Replaces a timer of the same name."""

    name: str
    after_ms: float
    event: Any


@dataclass(frozen=True, slots=True)
class CancelTimer:
    name: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What `handle` decided.

    `records` become one atomic batch; `reply` leaves once they are committed, or at once if there
    are none and everything the machine has seen is committed.
    """

    records: Sequence[Any] = ()
    reply: Any = None
    timers: Sequence[SetTimer | CancelTimer] = field(default=())
