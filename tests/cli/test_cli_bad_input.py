"""Arguments that cannot be sent are rejected at once, as usage errors."""

from collections.abc import Iterator

import pytest
from cli_running import run

from penstock.testing import Cluster

NOT_UTF_8 = "x\udcff"  # as Python reads the byte 0xff of a command line
ENDLESS = "1" * 5_000


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Cluster() as cluster:
        cluster.create_topic("t", partitions=2)
        yield cluster.bootstrap


@pytest.mark.parametrize("number", ["2147483648", "9" * 25])
@pytest.mark.parametrize(
    "command",
    [
        ("topic", "create", "new", "--partitions"),
        ("topic", "create", "new", "--replication-factor"),
        ("topic", "alter", "t", "--partitions"),
        ("produce", "t", "--partition"),
        ("broker", "unregister", "--yes"),
        ("txn", "abort", "t", "--start-offset", "0", "--yes", "--partition"),
    ],
    ids=" ".join,
)
def test_a_number_that_the_protocol_has_no_room_for_is_refused(
    bootstrap: str, command: tuple[str, ...], number: str
) -> None:
    ran = run("--bootstrap", bootstrap, *command, number, stdin=b"a\n")
    assert ran.code == 2
    assert "Error: Invalid value for" in ran.err
    assert "less than or equal to" in ran.err


@pytest.mark.parametrize(
    "command",
    [
        ("consume", "t", "--from", ENDLESS),
        ("consume", "t", "--from", f"@{ENDLESS}"),
        ("topic", "delete-records", "t", "--yes", "--before", ENDLESS),
        ("cluster", "elect-leaders", "--topic", f"t:{ENDLESS}"),
        ("dlq", "show", "t", "--at", f"0:{ENDLESS}"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_number_without_an_end_is_refused(bootstrap: str, command: tuple[str, ...]) -> None:
    ran = run("--bootstrap", bootstrap, *command)
    assert ran.code == 2
    assert ran.err.startswith("error: --")


@pytest.mark.parametrize(
    "command",
    [
        ("topic", "create", NOT_UTF_8),
        ("topic", "describe", "t", NOT_UTF_8),
        ("topic", "list", "--namespace", NOT_UTF_8),
        ("topic", "list", "-X", f"client.id={NOT_UTF_8}"),
        ("consume", NOT_UTF_8),
        ("consume", "t", "--group", NOT_UTF_8),
        ("consume", "t", "--template", NOT_UTF_8),
        ("consume", "t", "--null-marker", NOT_UTF_8),
        ("produce", "t", "--key-separator", NOT_UTF_8),
        ("produce", "t", "--header", f"a={NOT_UTF_8}"),
        ("dlq", "show", NOT_UTF_8),
    ],
    ids=lambda command: " ".join(command[:-1]),
)
def test_what_is_no_utf_8_is_refused(bootstrap: str, command: tuple[str, ...]) -> None:
    ran = run("--bootstrap", bootstrap, *command)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ") and ran.err.endswith("x\\udcff is no UTF-8\n")


def test_a_file_may_have_any_name(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("files") / NOT_UTF_8
    path.write_bytes(b"a\n")
    assert run("--bootstrap", bootstrap, "produce", "t", str(path)).code == 0


def test_a_setting_that_the_protocol_has_no_room_for_is_no_fault_of_ours(bootstrap: str) -> None:
    beyond = ("-X", f"request.timeout.ms={2**40}")
    ran = run("--bootstrap", bootstrap, "consume", "t", *beyond)
    assert ran.code == 2
    assert ran.err.startswith("error: what was given cannot be sent: ListOffsetsRequest")
