"""Replies of the quorum: parked by a number, filled with records of the log or of a snapshot.

The machine names a range; the bytes are read here. A range that is not in memory is warmed first,
and other effects go on meanwhile.
"""

from collections.abc import Callable

from penstock.errors import NotLeaderOrFollower, OffsetOutOfRange, SnapshotNotFound
from penstock.raft.protocols import MetadataLog, QuorumFiles
from penstock.raft.quorum_effects import LogRange, SendReply, SnapshotRange
from penstock.raft.quorum_events import QuorumResponse
from penstock.wire.messages.k01_fetch import FetchResponse
from penstock.wire.messages.k59_fetch_snapshot import FetchSnapshotResponse
from penstock.world import Cold, DiskFailed

Respond = Callable[[QuorumResponse], None]


class QuorumReplies:
    """Requests of other nodes without a reply so far."""

    def __init__(
        self,
        files: QuorumFiles,
        opened: Callable[[], MetadataLog],
        still_leads: Callable[[int], bool],
    ) -> None:
        self._files = files
        self._opened = opened
        self._still_leads = still_leads
        self._parked: dict[int, Respond] = {}
        self._last = 0

    def park(self, reply: Respond) -> int:
        """Return the number under which the machine answers."""
        self._last += 1
        self._parked[self._last] = reply
        return self._last

    def answer(self, effect: SendReply) -> None:
        """Reply with the response and the records that it names."""
        try:
            self._fill(effect)
        except Cold as cold:
            cold.file.warm(cold.position, cold.size, lambda failure: self._warmed(effect, failure))
        else:
            self._parked.pop(effect.reply_to)(effect.response)

    def _fill(self, effect: SendReply) -> None:
        response, records = effect.response, effect.records
        if isinstance(records, LogRange):
            assert isinstance(response, FetchResponse), "a Fetch alone names a range of the log"
            data = self._opened().read(records.offset, records.bytes_max)
            response.responses[0].partitions[0].records = data
        elif isinstance(records, SnapshotRange):
            assert isinstance(response, FetchSnapshotResponse), "it names a range of a snapshot"
            part = self._files.read_slice(*records)
            response.topics[0].partitions[0].unaligned_records = part

    def _warmed(self, effect: SendReply, failure: DiskFailed | None) -> None:
        """Answer when the range is in memory; a later epoch or a snapshot may have replaced it
        meanwhile."""
        if failure is not None or not self._still_leads(_epoch_of(effect.response)):
            self._reject(effect, NotLeaderOrFollower.code)
            return
        try:
            self.answer(effect)
        except OffsetOutOfRange:
            # The log begins behind a snapshot by now: the next fetch gets its id.
            self._parked.pop(effect.reply_to)(effect.response)
        except FileNotFoundError:
            self._reject(effect, SnapshotNotFound.code)

    def _reject(self, effect: SendReply, error_code: int) -> None:
        response = effect.response
        if isinstance(response, FetchResponse):
            response.responses[0].partitions[0].error_code = error_code
        elif isinstance(response, FetchSnapshotResponse):
            response.topics[0].partitions[0].error_code = error_code
        self._parked.pop(effect.reply_to)(response)


def _epoch_of(response: QuorumResponse) -> int:
    if isinstance(response, FetchResponse):
        return response.responses[0].partitions[0].current_leader.leader_epoch
    assert isinstance(response, FetchSnapshotResponse), "other responses have no range"
    return response.topics[0].partitions[0].current_leader.leader_epoch
