"""Help, exit codes and error messages of all commands."""

import subprocess
import sys
from pathlib import Path

import pytest
from cli_running import run

from penstock import __version__
from penstock.cli.terminal.output import Format, print_rows
from penstock.cli.topic import command
from penstock.client.transport.connection import NotAuthenticated

NOBODY = "127.0.0.1:1"


def test_help_names_every_command_and_exit_code() -> None:
    ran = run("--help")
    assert ran.code == 0
    words = ["start", "topic", "config", "produce", "consume", "group", "txn", "log", "version"]
    for word in (*words, "Exit codes"):
        assert word in ran.out


@pytest.mark.parametrize(
    "command",
    [
        ["topic", "create"],
        ["topic", "list"],
        ["topic", "describe"],
        ["topic", "alter"],
        ["topic", "delete"],
        ["config", "describe"],
        ["config", "set"],
        ["config", "unset"],
        ["config", "explain"],
        ["produce"],
        ["consume"],
        ["group", "list"],
        ["group", "describe"],
        ["group", "reset"],
        ["group", "delete"],
        ["group", "delete-offsets"],
        ["txn", "list"],
        ["txn", "describe"],
        ["txn", "find-hanging"],
        ["txn", "abort"],
        ["topic", "offsets"],
        ["topic", "delete-records"],
        ["cluster", "describe"],
        ["cluster", "features"],
        ["cluster", "elect-leaders"],
        ["broker", "list"],
        ["broker", "describe"],
        ["broker", "apis"],
        ["broker", "unregister"],
        ["quorum", "describe"],
        ["log", "dirs"],
        ["log", "move"],
        ["log", "status"],
        ["log", "dump"],
        ["profile", "list"],
        ["profile", "show"],
        ["profile", "set"],
        ["profile", "use"],
        ["profile", "remove"],
        ["top"],
        ["start"],
        ["version"],
    ],
)
def test_every_command_has_help_and_a_format(command: list[str]) -> None:
    ran = run(*command, "--help")
    assert ran.code == 0
    assert "--format" in ran.out


def test_help_loads_neither_the_protocol_nor_a_client_library() -> None:
    code = (
        "import sys; from penstock.cli.main import main; main(['--help']);"
        "heavy = {'confluent_kafka', 'penstock.wire.codec', 'penstock.node', 'rich'};"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(
    "command",
    [
        ["nothing"],
        ["topic", "create"],
        ["topic", "create", "a", "--partitions", "0"],
        ["topic", "create", "a", "--config", "no-equals-sign"],
        ["topic", "alter", "a"],
        ["config", "set", "a=b"],
        ["config", "set", "--topic", "a", "b"],
        ["config", "describe", "--topic", "a", "--all-brokers"],
        ["consume", "a", "--from", "yesterday"],
        ["produce", "a", "--idempotent", "--acks", "1"],
        ["produce", "a", "--key-separator", ""],
        ["group", "list", "--state", "asleep"],
        ["group", "list", "--type", "share"],
        ["group", "reset", "g", "--all-topics"],
        ["group", "reset", "g", "--to-latest"],
        ["group", "reset", "g", "--all-topics", "--to-latest", "--to-earliest"],
        ["group", "reset", "g", "--all-topics", "--topic", "a", "--to-latest"],
        ["group", "reset", "g", "--all-topics", "--to-datetime", "yesterday"],
        ["group", "reset", "g", "--all-topics", "--by-duration", "a while"],
        ["group", "reset", "g", "--all-topics", "--to-offset", "-1"],
        ["group", "reset", "g", "--topic", "a:x", "--to-latest"],
        ["group", "reset", "g", "--topic", "a:", "--to-latest"],
        ["group", "reset", "g", "--topic", "a", "--topic", "a:1", "--to-latest"],
        ["group", "reset", "g", "--from-file", "/no/such"],
        ["group", "reset", "g", "--from-file", "/"],
        ["group", "reset", "g", "--topic", "a", "--from-file", "/no/such"],
        ["group", "delete"],
        ["group", "delete-offsets", "g"],
        ["group", "delete", "g"],
        ["topic", "delete", "a"],
        ["topic", "delete-records", "a"],
        ["topic", "delete-records", "a", "--before", "start"],
        ["topic", "offsets", "a", "--at", "yesterday"],
        ["log", "move", "a", "--to", "d"],
        ["log", "move", "a:0"],
        ["broker", "unregister", "1"],
        ["consume", "a", "--filter", "nothing"],
        ["consume", "a", "--template", "%x"],
        ["consume", "a", "--template", "%v", "--format", "json"],
        ["consume", "a", "--group", "g", "--partition", "0"],
        ["consume", "a", "--group", "g", "--from", "5"],
        ["produce", "a", "--input", "json", "--key-separator", ":"],
        ["produce", "a", "/no/such/file"],
        ["topic", "list", "-X", "nothing"],
        ["topic", "list", "-X", "no.such.key=1"],
        ["topic", "list", "--profile", "nobody"],
        ["topic", "list", "--namespace", "no spaces"],
        ["profile", "set", "p"],
        ["profile", "use"],
        ["profile", "show"],
        ["top", "--interval", "0"],
        ["txn", "describe"],
        ["txn", "list", "--longer-than", "long"],
        ["txn", "find-hanging", "--partition", "0"],
        ["txn", "find-hanging", "--max-timeout", "15"],
        ["txn", "abort", "--topic", "a", "--partition", "0"],
        ["txn", "abort", "--topic", "a", "--partition", "0", "--producer-id", "1"],
        ["txn", "abort", "--partition", "0", "--start-offset", "1"],
        ["consume", "a", "--from", "@99999999999999999999999"],
        ["--format", "xml", "version"],
        ["--bootstrap", "no-port:x", "topic", "list"],
    ],
)
def test_what_is_not_understood_ends_with_2(command: list[str]) -> None:
    ran = run(*command)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err != ""
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    "command",
    [
        ["topic", "list"],
        ["topic", "create", "a"],
        ["config", "describe", "--topic", "a"],
        ["produce", "a"],
        ["consume", "a"],
        ["group", "list"],
        ["group", "describe", "g"],
        ["group", "reset", "g", "--all-topics", "--to-latest"],
        ["group", "delete", "g", "--yes"],
        ["group", "delete-offsets", "g", "--topic", "a", "--dry-run"],
        ["topic", "delete", "a", "--yes"],
        ["topic", "offsets", "a"],
        ["topic", "delete-records", "a", "--before", "end"],
        ["cluster", "describe"],
        ["cluster", "features"],
        ["cluster", "elect-leaders"],
        ["broker", "list"],
        ["broker", "describe", "1"],
        ["broker", "apis"],
        ["broker", "unregister", "1", "--yes"],
        ["quorum", "describe"],
        ["log", "dirs"],
        ["log", "move", "a:0", "--to", "d"],
        ["consume", "a", "--group", "g"],
        ["top", "--once"],
        ["txn", "list"],
        ["txn", "describe", "t"],
        ["txn", "find-hanging"],
        ["txn", "abort", "--topic", "a", "--partition", "0", "--start-offset", "1"],
    ],
)
def test_a_server_that_is_not_there_ends_with_3_and_a_way_out(command: list[str]) -> None:
    ran = run("--bootstrap", NOBODY, *command)
    assert ran.code == 3
    assert f"{NOBODY} cannot be reached: nothing listens there" in ran.err
    assert "penstock start" in ran.err
    assert ran.out == ""


def test_a_plan_that_cannot_be_read_says_where(tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text("orders,0,5\norders;1;5\n")
    ran = run("--bootstrap", NOBODY, "group", "reset", "g", "--from-file", str(plan))
    assert ran.code == 2
    assert f"--from-file {plan}: line 2: must be topic,partition,offset" in ran.err
    plan.write_bytes(b"\xff\xfe")
    assert "is no text" in run("group", "reset", "g", "--from-file", str(plan)).err


def test_the_address_comes_from_the_environment_or_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:2")
    assert "127.0.0.1:2 cannot" in run("topic", "list").err
    assert "127.0.0.1:3 cannot" in run("topic", "list", "--bootstrap", "127.0.0.1:3").err


def test_version_says_what_is_running() -> None:
    assert run("version").out.startswith("penstock ")
    assert set(run("--format", "json", "version").json) == {"penstock", "python", "librdkafka"}


def test_the_version_can_be_asked_for_as_of_other_programs() -> None:
    assert run("--version") == (0, f"penstock {__version__}\n", "")


def test_a_table_lines_up_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(
        Format.TABLE,
        ("name", "in_sync"),
        [{"name": "long one", "in_sync": [1, 2]}, {"name": "b", "in_sync": None}],
    )
    assert capsys.readouterr().out == "NAME      IN SYNC\nlong one  1,2\nb         -\n"


def test_a_name_in_a_table_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(Format.TABLE, ("group",), [{"group": "a\x1b[2J\u009b"}, {"group": ["ü", "\n"]}])
    assert capsys.readouterr().out.splitlines()[1:] == ["a\\x1b[2J\\x9b", "ü,\\n"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="it is Linux's")
@pytest.mark.parametrize("command", ["penstock.cli.main", "penstock.cli.kafka.topics"])
def test_output_that_has_no_room_is_told_of(command: str) -> None:
    program = f"import sys; from {command} import main; sys.exit(main(['--version']))"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert b"the output cannot be written" in done.stderr and b"Traceback" not in done.stderr


def test_a_store_that_cannot_be_read_is_the_users_mistake(tmp_path: Path) -> None:
    store = f"ssl.truststore.location={tmp_path / 'none.p12'}"
    ran = run("--bootstrap", NOBODY, "-X", "security.protocol=SSL", "-X", store, "topic", "list")
    assert ran.code == 2
    assert "none.p12" in ran.err and "fault of penstock" not in ran.err


def test_who_is_not_let_in_is_told_what_to_check(monkeypatch: pytest.MonkeyPatch) -> None:
    def reject(*_arguments: object) -> None:
        raise NotAuthenticated("a:1 refused to authenticate alice")

    monkeypatch.setattr(command, "connect", reject)
    ran = run("topic", "list")
    assert ran.code == 3
    assert "alice" in ran.err and "sasl.*" in ran.err and "penstock start" not in ran.err
