"""Facts that no metadata record holds; the node around the controller answers them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


def _no_session(_broker_id: int, _broker_epoch: int) -> bool:
    return False


def _static_quorum() -> int:
    return 0


def _no_voters() -> Sequence[int]:
    return ()


@dataclass(frozen=True, slots=True)
class LiveFacts:
    """Questions of the controller, asked again for each decision.

    `has_session` gets the id and the epoch of a broker: whether its session runs
    (BrokerSessions.has_session at the present time). `is_awaited` gets the same: whether a new
    controller still has to wait for that broker. `kraft_version` returns the version of the
    quorum. `voter_ids` returns the nodes that must support a feature before it is raised.
    """

    has_session: Callable[[int, int], bool] = _no_session
    is_awaited: Callable[[int, int], bool] = _no_session
    kraft_version: Callable[[], int] = _static_quorum
    voter_ids: Callable[[], Sequence[int]] = _no_voters
