"""What happens to a coordinator besides its own timers."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """A client's request, who sent it, and a little chance (a member id is made of it)."""

    message: Any
    version: int
    client_id: str = ""
    client_host: str = ""
    seed: bytes = bytes(16)


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """Topics were made, grew or were deleted: their names, and the ids of those deleted."""

    names: tuple[str, ...] = ()
    deleted: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class WriteMarker:
    """The transaction coordinator ends a transaction that reaches into this partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transactions_v2: bool
