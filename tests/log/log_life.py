"""One log with random appends, syncs and crashes, and the checks after each crash."""

import random

from log_builder import (
    DIRECTORY,
    NOW_MS,
    SMALL,
    SyncRounds,
    batch,
    produced,
    reopen,
    split,
    stored,
)

from penstock.errors import KafkaError
from penstock.log.checkpoints import RECOVERY_POINTS, format_offsets, read_offsets
from penstock.log.epochs import LeaderEpochs
from penstock.log.log import Log
from penstock.log.producers import BATCHES, EPOCH, Producers, State
from penstock.model import TopicPartition
from penstock.testing.sim.disk import SimDisk
from penstock.wire.batch import (
    ABORT_MARKER,
    ATTRIBUTES,
    COMMIT_MARKER,
    CONTROL,
    HEADER,
    LEADER_EPOCH,
    Header,
    read_marker,
)
from penstock.world import DiskFailed

PARTITION = TopicPartition("events", 0)


class Run:
    """One log, its life and its crashes. `written` is every batch it accepted, in order."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.disk = SimDisk(seed)
        self.log = Log.create(self.disk, DIRECTORY, bytes(range(16)), SMALL, NOW_MS)
        self.written: list[tuple[int, int, bytes]] = []
        self.epoch = 0
        self.sequences: dict[int, int] = {}
        self.rounds = SyncRounds()

    def live(self, steps: int) -> None:
        actions = (
            (self.append, 10),
            (self.end_transaction, 2),
            (self.roll, 1),
            (self.begin_round, 3),
            (self.finish_some, 6),
            (self.checkpoint, 2),
            (self.change_leader, 1),
            (self.truncate, 1),
            (self.fail_a_write, 1),
            (self.restart, 1),
        )
        names, weights = zip(*actions, strict=True)
        for action in self.dice.choices(names, weights, k=steps):
            action()

    def append(self) -> None:
        turn: list[bytes] = []
        for _ in range(self.dice.choice((1, 1, 3, 9))):
            values = [self.dice.randbytes(self.dice.randrange(150))] * self.dice.randrange(1, 4)
            timestamp = NOW_MS + self.dice.randrange(1_000)
            number = self.dice.randrange(-2, 4)
            if number < 0:
                turn.append(batch(*values, timestamp=timestamp))
                continue
            sequence = self.sequences.get(number, 0)
            self.sequences[number] = sequence + len(values)
            producer = (number, 0, sequence)
            turn.append(
                batch(*values, timestamp=timestamp, producer=producer, transactional=number < 2)
            )
        end = self.log.end_offset
        results = self.log.append(produced(*turn), self.epoch, NOW_MS)
        assert not any(isinstance(result, KafkaError) for result in results)
        self.written += split(stored(self.log, end))

    def end_transaction(self) -> None:
        end = self.log.end_offset
        self.log.append_control(
            self.dice.choice((ABORT_MARKER, COMMIT_MARKER)),
            producer_id=self.dice.randrange(2),
            producer_epoch=0,
            coordinator_epoch=0,
            leader_epoch=self.epoch,
            now_ms=NOW_MS,
        )
        self.written += split(stored(self.log, end))

    def roll(self) -> None:
        self.log.roll(NOW_MS)

    def begin_round(self) -> None:
        self.rounds.begin(self.log)

    def finish_some(self) -> None:
        for _ in range(self.dice.randrange(1, 12)):
            self.disk.run_one()

    def checkpoint(self) -> None:
        data = format_offsets({PARTITION: self.log.recovery_point})
        self.disk.replace_now(RECOVERY_POINTS, data)

    def change_leader(self) -> None:
        self.epoch += 1

    def truncate(self) -> None:
        if not self.written:
            return
        offset = self.dice.choice(self.written)[0]
        finished: list[object] = []
        self.log.truncate_to(offset, NOW_MS, finished.append)
        self.disk.run_callbacks()
        assert finished == [None]
        self.checkpoint()
        self.written = [each for each in self.written if each[1] <= offset]
        self._relearn()

    def fail_a_write(self) -> None:
        before = (self.log.end_offset, dict(self.log.producers.states), self.log.active.size)
        self.disk.fail_write(0, full=self.dice.random() < 0.5)
        try:
            self.log.append(produced(batch(b"lost", producer=(9, 0, 0))), self.epoch, NOW_MS)
        except DiskFailed:
            pass
        else:
            raise AssertionError("the write was to fail")
        after = (self.log.end_offset, dict(self.log.producers.states), self.log.active.size)
        assert after == before

    def restart(self) -> None:
        """A clean stop and a clean start: the indexes of the active segment stay behind."""
        self.disk.run_callbacks()
        self.log.close()
        self.checkpoint()
        self.disk.sync_everything_now()
        self.log = reopen(self.disk)
        self._relearn()

    def _relearn(self) -> None:
        """Producers resume from what the log holds, as they do after a leader change."""
        self.sequences.clear()
        for number, state in self.log.producers.states.items():
            self.sequences[number] = state[1] + 1

    def crash(self) -> None:
        """The power goes, or only the process: then the page cache outlives it."""
        synced = self.log.synced_offset
        if self.dice.random() < 0.3:
            if not self.log.busy and self.dice.random() < 0.5:
                self.half_close()
            self.disk.kill()
            synced = self.log.end_offset
        else:
            self.disk = self.disk.crash()
        self.rounds.forget()
        if not self.disk.is_directory(DIRECTORY):
            assert synced == 0
            self.written.clear()
            self.sequences.clear()
            self.log = Log.create(self.disk, DIRECTORY, bytes(range(16)), SMALL, NOW_MS)
            return
        self.log = self.recover()
        found = split(stored(self.log))
        assert found == self.written[: len(found)], "what is there was written, in this order"
        kept = found[-1][1] if found else 0
        assert kept >= synced, "what was synced is there"
        assert self.log.end_offset == kept
        self.written = found
        check_derived(self.log, found)
        self.recover_again(found)
        self._relearn()

    def half_close(self) -> None:
        """Killed in the middle of a clean stop."""
        self.log.close()

    def recover_again(self, found: list[tuple[int, int, bytes]]) -> None:
        before = self.disk.files()
        self.log = self.recover()
        assert self.disk.files() == before, "recovering twice changes nothing"
        check_derived(self.log, found)

    def recover(self) -> Log:
        point = read_offsets(self.disk, RECOVERY_POINTS).offsets.get(PARTITION, 0)
        return reopen(self.disk, clean=False, recovery_point=point)


def check_derived(log: Log, written: list[tuple[int, int, bytes]]) -> None:
    """Producers, epochs and aborted transactions are those of the batches, and no others."""
    producers, epochs = Producers(), LeaderEpochs()
    aborted: list[tuple[int, int]] = []
    for base, _, data in written:
        header: Header = HEADER.unpack_from(data)
        marker = read_marker(data) if header[ATTRIBUTES] & CONTROL else None
        ended = producers.replay(header, base, marker)
        if ended is not None:
            aborted.append((ended.producer_id, ended.first_offset))
        if header[LEADER_EPOCH] > epochs.latest:
            epochs.assign(header[LEADER_EPOCH], base)
    assert _essence(log.producers) == _essence(producers)
    assert log.producers.ongoing == producers.ongoing
    assert log.epochs.entries() == epochs.entries()
    assert log.aborted_transactions(0, log.end_offset) == aborted


def _essence(producers: Producers) -> dict[int, tuple[object, ...]]:
    """A snapshot keeps only the last of a producer's batches, and no timestamp of its own for
    that."""

    def of(state: State) -> tuple[object, ...]:
        return (*state[EPOCH:BATCHES], *(each[:3] for each in state[BATCHES][-1:]))

    return {number: of(state) for number, state in sorted(producers.states.items())}
