"""The events of a group coordinator besides its own timers and the ends of transactions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Returns whether the client may see a topic.
TopicVisibility = Callable[[str], bool]


@dataclass(slots=True)  # hot path: a frozen one takes four times as long to make
class GroupRequest:
    """A request, its client, and a random seed for a member id. Without `may_describe`, the client
    may see every topic."""

    message: Any
    version: int
    client_id: str = ""
    client_host: str = ""
    seed: bytes = bytes(16)
    may_describe: TopicVisibility | None = None


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """Topics were created, grew or were deleted: their names, and the ids of deleted ones."""

    names: tuple[str, ...] = ()
    deleted: tuple[tuple[str, bytes], ...] = ()
