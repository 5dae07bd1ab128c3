"""Records that librdkafka has no room for yet, whose partition cannot be chosen yet, or which are
no bytes yet.

They wait here in order, and whoever comes later waits behind them. A record waits at most
max.block.ms; all together take at most buffer.memory, beyond that nothing is taken.
"""

from collections import deque
from collections.abc import Callable, Hashable
from typing import Protocol

from penstock.client.failures import BufferExhausted, TimedOut
from penstock.client.producer.encoding import NOT_CHOSEN, Encoded, NotWrittenYet, Unwritten
from penstock.client.producer.ledger import Report

# Serializers may take tens of microseconds for a record.
WRITES_AT_ONCE = 200


class Sender(Protocol):
    """Who is told what becomes of a waiting record."""

    def taken(self) -> None: ...
    def fail(self, error: Exception) -> None: ...


class Waiting:
    """One record that waits."""

    __slots__ = ("encoded", "report", "sender", "size_bytes", "until_s")

    def __init__(
        self,
        encoded: Encoded | Unwritten,
        report: Report,
        sender: Sender,
        size_bytes: int,
        until_s: float,
    ) -> None:
        self.encoded = encoded
        self.report = report
        self.sender = sender
        self.size_bytes = size_bytes
        self.until_s = until_s


class Backlog:
    """Of one producer, in the order of sending."""

    def __init__(self, bytes_max: int, block_s: float) -> None:
        self._bytes_max = bytes_max
        self._block_s = block_s
        self._records: deque[Waiting] = deque()
        self.size_bytes = 0
        self.trouble = ""  # why the cluster did not answer

    def __len__(self) -> int:
        return len(self._records)

    def add(
        self, encoded: Encoded | Unwritten, report: Report, sender: Sender, now_s: float
    ) -> None:
        """BufferExhausted if there is no room for it here either."""
        size = encoded.size_bytes
        if self.size_bytes + size > self._bytes_max:
            raise BufferExhausted(
                f"{len(self._records):,} records ({self.size_bytes:,} bytes) wait for room, and "
                f"buffer.memory is {self._bytes_max:,}"
            )
        self.size_bytes += size
        self._records.append(Waiting(encoded, report, sender, size, now_s + self._block_s))

    def refill(
        self,
        now_s: float,
        write: Callable[[Unwritten], Encoded],
        choose: Callable[[Encoded], int],
        hand_over: Callable[[Encoded, Report], None],
    ) -> bool:
        """Hand over what there is room for, in order; give up what has waited too long. Whether
        more could be written at once: an event loop has others to serve, too."""
        records = self._records
        writes_left = WRITES_AT_ONCE
        while records and writes_left:
            first = records[0]
            encoded = first.encoded
            try:
                if isinstance(encoded, Unwritten):
                    writes_left -= 1
                    first.encoded = encoded = write(encoded)
                if encoded.partition == NOT_CHOSEN:
                    chosen = choose(encoded)
                    if chosen == NOT_CHOSEN:
                        break
                    first.encoded = encoded = encoded._replace(partition=chosen)
                hand_over(encoded, first.report)
            except BufferError:
                break
            except NotWrittenYet as late:
                first.encoded = late.unwritten
                break
            except Exception as error:
                self._drop(first)
                first.sender.fail(error)
                continue
            self._drop(first)
            first.sender.taken()
        if writes_left:  # else they wait for nothing but this
            self._expire(now_s)
        return not writes_left

    def _expire(self, now_s: float) -> None:
        # All wait equally long, so the oldest is the first to go.
        while self._records and self._records[0].until_s <= now_s:
            late = self._records[0]
            self._drop(late)
            late.sender.fail(self._too_late(late.encoded))

    def _too_late(self, encoded: Encoded | Unwritten) -> Exception:
        if isinstance(encoded, Unwritten):
            return TimedOut(
                f"the serializer of a record for {encoded.topic} has asked, and heard nothing "
                f"within max.block.ms ({self._block_s * 1000:.0f} ms)",
                next_step="See whether the schema registry runs and answers",
            )
        if encoded.partition == NOT_CHOSEN:
            return TimedOut(
                f"the cluster did not say how many partitions {encoded.topic} has within "
                f"max.block.ms ({self._block_s * 1000:.0f} ms). {self.trouble}"
            )
        return BufferExhausted(
            f"there was no room for a record for {encoded.topic} within max.block.ms "
            f"({self._block_s * 1000:.0f} ms)"
        )

    def _drop(self, first: Waiting) -> None:
        dropped = self._records.popleft()
        assert dropped is first, "only the first one leaves"
        self.size_bytes -= first.size_bytes

    def give_up(self, error: Exception) -> None:
        """Fail all that wait."""
        while self._records:
            first = self._records[0]
            self._drop(first)
            first.sender.fail(error)

    def undecided(self) -> str | None:
        """The topic whose number of partitions has to be asked for, if that is what holds us."""
        if not self._records:
            return None
        encoded = self._records[0].encoded
        if isinstance(encoded, Unwritten):
            return None
        return encoded.topic if encoded.partition == NOT_CHOSEN else None

    def unwritten(self) -> Unwritten | None:
        """The record whose serializer has to ask, if that is what holds us."""
        first = self._records[0].encoded if self._records else None
        return first if isinstance(first, Unwritten) else None

    def refuse(self, about: Hashable, error: Exception) -> None:
        """Nobody answers a question: fail all that wait for it."""
        refused = [each for each in self._records if _asks(each, about)]
        self._records = deque(each for each in self._records if not _asks(each, about))
        for each in refused:
            self.size_bytes -= each.size_bytes
            each.sender.fail(error)


def _asks(waiting: Waiting, about: Hashable) -> bool:
    encoded = waiting.encoded
    return isinstance(encoded, Unwritten) and encoded.about == about
