"""The fetch session of a follower with one leader, as KIP-227 has it: ids, epochs, and verdicts.

A full request (epoch 0) names all partitions and asks for a session. Each later request names what
has changed. After an error the next request is a full one again, which also ends the session that
the leader may still have.
"""

from penstock.errors import NONE, FetchSessionIdNotFound
from penstock.wire.messages.k01_fetch import FetchResponse

NO_SESSION = 0
FULL_EPOCH = 0
EPOCH_MAX = 2**31 - 1


class LeaderSession:
    """Id and epoch of the next request."""

    __slots__ = ("epoch", "session_id")

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = FULL_EPOCH

    @property
    def is_full(self) -> bool:
        """Return whether the next request names all partitions."""
        return self.epoch == FULL_EPOCH

    def accept(self, response: FetchResponse, *, is_complete: bool) -> bool:
        """Move to the next request after an answer. Return whether its partitions count.

        `is_complete`: a full answer has exactly the partitions that were asked for, any other one
        has no partition outside the session.
        """
        if response.error_code != NONE:
            if response.error_code == FetchSessionIdNotFound.code:
                self.session_id = NO_SESSION
            self.restart()
            return False
        if not is_complete:
            if self.is_full:
                self.session_id = NO_SESSION
            self.restart()
            return False
        if response.session_id == NO_SESSION:
            self.session_id = NO_SESSION
            self.restart()
        elif self.is_full:
            self.session_id, self.epoch = response.session_id, 1
        else:
            self.epoch = self.epoch + 1 if self.epoch < EPOCH_MAX else 1
        return True

    def restart(self) -> None:
        """Make the next request a full one, which ends the present session of the leader."""
        self.epoch = FULL_EPOCH
