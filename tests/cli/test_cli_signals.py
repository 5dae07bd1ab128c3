"""Commands that are ended from outside do what they have to do at their end."""

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from cli_clients import WAIT_SECONDS_MAX, produce
from cli_running import NO_PROFILES, run

from penstock.cli.consume import command
from penstock.cli.consume.reader import RecordReader
from penstock.cli.consume.record_view import RawRecord
from penstock.cli.terminal.signals import Signalled, ended_by_signals
from penstock.client.admin.blocking import Admin
from penstock.errors import KafkaError
from penstock.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        running.create_topic("t", partitions=1)
        produce(running.bootstrap, "t", {0: 3})
        yield running


def command_line(cluster: Cluster, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "penstock", "--bootstrap", cluster.bootstrap, *arguments]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_member_of_a_group_commits_what_it_printed_and_leaves(
    cluster: Cluster, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = RecordReader.finish

    def finish_and_end(self: RecordReader, records: Sequence[RawRecord]) -> None:
        finish(self, records)
        if records[-1].offset == 2:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(RecordReader, "finish", finish_and_end)
    group = f"ended-by-{number.name}"
    ran = run("--bootstrap", cluster.bootstrap, "consume", "t", "--follow", "--group", group)
    assert (ran.code, ran.out) == (128 + number, "0\n1\n2\n")
    with Admin(bootstrap=cluster.bootstrap) as admin:
        described = admin.groups.describe([group])[group]
        committed = admin.groups.offsets_of([group])[group]
    assert not isinstance(described, KafkaError) and not isinstance(committed, KafkaError)
    assert (described.state, len(described.members)) == ("Empty", 0)
    assert [each.offset for each in committed.values()] == [3]


def test_ctrl_c_during_the_imports_prints_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    ended = subprocess.run(
        [sys.executable, "-m", "penstock", "--version"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, b"", b"")


def test_a_terminal_is_given_back(cluster: Cluster) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command_line(cluster, "top", "-i", "0.2"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "PENSTOCK_CONFIG": NO_PROFILES, "TERM": "xterm"},
    ) as watching:
        try:
            seen = b""
            while b"TOPIC" not in seen and select.select([ours], [], [], WAIT_SECONDS_MAX)[0]:
                seen += os.read(ours, 65536)
            watching.send_signal(signal.SIGTERM)
            while b"\x1b[?1049l" not in seen and select.select([ours], [], [], WAIT_SECONDS_MAX)[0]:
                seen += os.read(ours, 65536)
            assert b"\x1b[?25h\x1b[?1049l" in seen
            assert watching.wait(WAIT_SECONDS_MAX) == 128 + signal.SIGTERM
        finally:
            watching.kill()
    os.close(ours)
    os.close(theirs)


def test_a_signal_ends_only_who_is_inside() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Signalled) as ended, ended_by_signals():
        os.kill(os.getpid(), signal.SIGTERM)
    assert ended.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_by_signals():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_was_printed_of_a_batch_before_a_signal_is_committed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def printing(*_: object) -> Callable[[RawRecord], None]:
        def print_record(record: RawRecord) -> None:
            if record.offset == 2:
                os.kill(os.getpid(), signal.SIGTERM)

        return print_record

    monkeypatch.setattr(command, "printer_for", printing)
    where = ("--bootstrap", cluster.bootstrap)
    assert run(*where, "consume", "t", "--follow", "--group", "midway").code == 143
    with Admin(bootstrap=cluster.bootstrap) as admin:
        (committed,) = admin.groups.offsets("midway").values()
    assert committed.offset == 2
