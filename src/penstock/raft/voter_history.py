"""Voter sets and kraft.version by the offset of their records.

A record counts from its append on, committed or not. Truncation undoes it. With kraft.version 0 the
voters come from the configuration, and the log names none.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

from penstock.raft.replica_key import ReplicaKey
from penstock.raft.voters import QuorumVoter, Voters, from_record
from penstock.wire.records.quorum import KRaftVersionRecord, VotersRecord

Value = TypeVar("Value")

NOT_IN_LOG = -1  # the offset of values that formatting wrote into the first snapshot


class VoterSetAt(NamedTuple):
    """A voter set, and the offset of its record; None for the configured set."""

    offset: int | None
    voters: Voters


class _ByOffset(Generic[Value]):
    """Values by the offset of their record, oldest first."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, Value]] = []

    def add(self, offset: int, value: Value) -> None:
        assert not self._entries or offset > self._entries[-1][0], "records come in order"
        self._entries.append((offset, value))

    def last(self) -> tuple[int, Value] | None:
        return self._entries[-1] if self._entries else None

    def before(self, end_offset: int) -> Value | None:
        """Return the last value below `end_offset`."""
        index = bisect_right(self._entries, end_offset - 1, key=lambda each: each[0])
        return self._entries[index - 1][1] if index else None

    def truncate(self, end_offset: int) -> bool:
        """Drop values from `end_offset` on; return whether there were any."""
        kept = [each for each in self._entries if each[0] < end_offset]
        dropped = len(kept) < len(self._entries)
        self._entries = kept
        return dropped

    def forget_before(self, start_offset: int) -> None:
        """Drop values below `start_offset` but for the last of them, which still counts."""
        index = bisect_right(self._entries, start_offset, key=lambda each: each[0])
        if index > 1:
            del self._entries[: index - 1]


class VoterHistory:
    """All voter sets of a log. `configured` is the static set of kraft.version 0."""

    def __init__(self, configured: Voters = ()) -> None:
        self._configured = configured
        self._voters: _ByOffset[Voters] = _ByOffset()
        self._versions: _ByOffset[int] = _ByOffset()
        self.latest: Voters = configured

    @property
    def kraft_version(self) -> int:
        last = self._versions.last()
        return last[1] if last else 0

    @property
    def latest_entry(self) -> VoterSetAt:
        last = self._voters.last()
        return VoterSetAt(*last) if last else VoterSetAt(None, self._configured)

    def find(self, node_id: int) -> QuorumVoter | None:
        return next((each for each in self.latest if each.node_id == node_id), None)

    def is_voter(self, key: ReplicaKey) -> bool:
        voter = self.find(key.node_id)
        return voter is not None and ReplicaKey(voter.node_id, voter.directory_id).names(key)

    def voters_before(self, end_offset: int) -> Voters:
        """Return the voters as a snapshot that ends at `end_offset` has to name them."""
        found = self._voters.before(end_offset)
        return self._configured if found is None else found

    def kraft_version_before(self, end_offset: int) -> int:
        return self._versions.before(end_offset) or 0

    def add(self, offset: int, message: object) -> bool:
        """Take in a control record; return whether the voters have changed."""
        if isinstance(message, KRaftVersionRecord):
            self._versions.add(offset, message.kraft_version)
        elif isinstance(message, VotersRecord):
            self._voters.add(offset, from_record(message))
            self._follow()
            return True
        return False

    def add_all(self, base_offset: int, messages: Iterable[object]) -> bool:
        """Take in the control records of one batch; return whether the voters have changed."""
        changed = [self.add(base_offset + i, message) for i, message in enumerate(messages)]
        return any(changed)

    def truncate(self, end_offset: int) -> None:
        self._versions.truncate(end_offset)
        if self._voters.truncate(end_offset):
            self._follow()

    def forget_before(self, start_offset: int) -> None:
        self._versions.forget_before(start_offset)
        self._voters.forget_before(start_offset)

    def load(self, end_offset: int, kraft_version: int, voters: Voters) -> None:
        """Begin again with the values of a snapshot that ends at `end_offset`."""
        self._voters = _ByOffset()
        self._versions = _ByOffset()
        if kraft_version > 0:
            self._versions.add(end_offset - 1, kraft_version)
            self._voters.add(end_offset - 1, voters)
        self._follow()

    def _follow(self) -> None:
        self.latest = self.latest_entry.voters
