"""The quorum of one voter as transcripts: a call goes in, batches, commits and files come out."""

import contextlib
import re
from pathlib import Path

import pytest
from quorum_world import ME, Watching, make, records_of, snapshot

from penstock.broker.metadata.quorum_files import METADATA_DIRECTORY, QUORUM_STATE
from penstock.broker.metadata.snapshot_files import list_snapshots
from penstock.errors import KafkaError
from penstock.raft.control import read_control
from penstock.raft.errors import QuorumError
from penstock.raft.quorum import Quorum
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.raft.voters import QuorumVoter, VoterEndpoint
from penstock.testing.sim.disk import SimDisk
from penstock.wire.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    CONTROL,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    LENGTH,
    LENGTH_OVERHEAD,
    CorruptBatch,
    Header,
    batch_headers,
    checksum_holds,
    read_records,
)
from penstock.world import DiskFailed
from transcripts import Command, check

SCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
STATE_PATH = f"{METADATA_DIRECTORY}/{QUORUM_STATE}"
CRASH_SEED = 3


def first_clause(error: Exception) -> str:
    """Return the kind of an error, and its text up to the advice."""
    return f"{type(error).__name__}: {re.split(r'[.;] ', str(error))[0].rstrip('.')}"


class Play:
    """One disk, the quorums that run on it one after the other, and their traces."""

    def __init__(self) -> None:
        self.disk = SimDisk(1)
        self._forget()

    def _forget(self) -> None:
        self.quorum: Quorum | None = None
        self.watching = Watching()
        self.failures: list[DiskFailed] = []
        self.ended: list[str] = []

    def __call__(self, command: Command) -> list[str]:
        files = self._files()
        commits, losses = len(self.watching.commits), self.watching.losses
        try:
            answer = getattr(self, command.verb.replace("-", "_"))(command)
        except (KafkaError, QuorumError, DiskFailed) as error:
            answer = [f"-> {first_clause(error)}"]
        lines = self._changes(files)
        lines += [f"committed {each}" for each in self.watching.commits[commits:]]
        lines += [f"failed: {each}" for each in self.failures]
        lines += ["leadership lost"] * (self.watching.losses - losses)
        lines += self.ended + answer
        self.failures.clear()
        self.ended.clear()
        return lines

    # -- files

    def _files(self) -> dict[str, bytes]:
        return {
            path.removeprefix(f"{METADATA_DIRECTORY}/"): data
            for path, data in self.disk.files().items()
            if path.endswith((".log", ".checkpoint", QUORUM_STATE))
        }

    def _changes(self, before: dict[str, bytes]) -> list[str]:
        """Return what the command has written: the state, batches of the log, snapshots."""
        after = self._files()
        lines = [f"remove {name}" for name in sorted(before) if name not in after]
        for name, data in sorted(after.items(), key=lambda each: each[0] != QUORUM_STATE):
            known = before.get(name, b"")
            if data == known:
                continue
            if name.endswith(".log"):
                old, new = batches_of(known), batches_of(data)
                lines += [f"cut {each}" for each in old if each not in new]
                lines += [each for each in new if each not in old]
            elif name == QUORUM_STATE:
                lines.append(f"write {name} {data.decode()}")
            else:
                lines += [f"write {name}", *(f"  {each}" for each in batches_of(data))]
        return lines

    # -- the verbs of a script

    def format(self, command: Command) -> list[str]:
        snapshot(self.disk, kraft_version=command.number("kraft", 1))
        return []

    def start(self, command: Command) -> list[str]:
        host = command.options.get("host", "localhost")
        me = QuorumVoter(
            command.number("node", ME.node_id),
            ME.directory_id,
            (VoterEndpoint("CONTROLLER", host, 9093),),
        )
        quorum, self.watching, self.failures = make(self.disk, me)
        quorum.start()
        self.quorum = quorum
        return self.describe(command)

    def append(self, command: Command) -> list[str]:
        batch = self._running().append([each.encode() for each in command.objects])
        return [f"-> end={batch.end_offset} epoch={batch.epoch}"]

    def sync(self, _: Command) -> list[str]:
        self.disk.run_callbacks()
        return []

    def describe(self, _: Command) -> list[str]:
        view = self._running().describe()
        return [
            f"-> leader={view.leader_id} epoch={view.epoch} end={view.end_offset} "
            f"committed={view.high_watermark} kraft={view.kraft_version}"
        ]

    def records(self, _: Command) -> list[str]:
        values = [each.decode() for each in records_of(self._running())]
        return [f"-> {' '.join(values) or '(none)'}"]

    def snapshot(self, _: Command) -> list[str]:
        """Write a snapshot of the committed records, up to the committed offset."""
        quorum = self._running()
        snapshot_id = MetadataSnapshotId(quorum.committed_offset, quorum.epoch)

        def written(failure: DiskFailed | None) -> None:
            self.ended.append(f"snapshot failed: {failure}" if failure else "snapshot complete")

        quorum.write_snapshot(snapshot_id, iter(records_of(quorum)), 0, written)
        self.disk.run_callbacks()
        kept = " ".join(
            str(each.end_offset) for each in list_snapshots(self.disk, METADATA_DIRECTORY)
        )
        return [f"-> kept={kept}"]

    def stop(self, _: Command) -> list[str]:
        self._running().stop()
        self.quorum = None
        return []

    def kill(self, _: Command) -> list[str]:
        self.disk.kill()
        self._forget()
        return []

    def lose_power(self, _: Command) -> list[str]:
        self.disk = self.disk.crash(CRASH_SEED)
        self._forget()
        return []

    def lose_state(self, _: Command) -> list[str]:
        self.disk.remove_now(STATE_PATH)
        return []

    def fail_write(self, command: Command) -> list[str]:
        """Fail the next write, or the next for want of room."""
        self.disk.fail_write(0, full="full" in command.objects)
        return []

    def fail_sync(self, _: Command) -> list[str]:
        self.disk.fail_sync(0)
        return []

    def _running(self) -> Quorum:
        assert self.quorum is not None, "the script starts a quorum first"
        return self.quorum


def batches_of(data: bytes) -> list[str]:
    """Return one line per whole batch, up to the end that a loss of power has torn."""
    lines = []
    with contextlib.suppress(CorruptBatch):
        for position, header in batch_headers(data):
            batch = memoryview(data)[position : position + LENGTH_OVERHEAD + header[LENGTH]]
            if not checksum_holds(batch, header):
                break
            lines.append(line_of(batch, header))
    return lines


def line_of(batch: memoryview, header: Header) -> str:
    """Return offsets, epoch and records of a batch."""
    records = list(read_records(batch))
    if header[ATTRIBUTES] & CONTROL:
        names = [type(read_control(record)).__name__ for record in records]
    else:
        names = [(record.value or b"").decode() for record in records]
    first, last = header[BASE_OFFSET], header[BASE_OFFSET] + header[LAST_OFFSET_DELTA]
    return f"batch {first}-{last} epoch={header[LEADER_EPOCH]} {' '.join(names)}"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_quorum_does_as_the_transcript_says(script: Path) -> None:
    check(script, Play())
