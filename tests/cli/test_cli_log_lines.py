"""Log lines of `penstock start` on stderr."""

import io
import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_running import run
from fake_node import FakeNode, Running
from node_process import NodeProcess

from penstock.cli.terminal.log_lines import logging_to
from penstock.client.admin.blocking import Admin
from penstock.client.values import NewTopic
from penstock.config import BrokerConfig
from penstock.log_levels import LogLevel

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO |WARN |ERROR|FATAL) [a-z.]+: .+")
NOON = 1_700_000_000.25


def said(level: LogLevel, *messages: tuple[int, str]) -> list[str]:
    stream = io.StringIO()
    with logging_to(stream, level):
        for number, text in messages:
            logging.getLogger("penstock.somewhere").log(number, text)
    return stream.getvalue().splitlines()


def test_a_line_has_a_utc_time_a_level_and_the_loggers_name() -> None:
    stream = io.StringIO()
    with logging_to(stream, LogLevel.INFO):
        logger = logging.getLogger("penstock.somewhere")
        record = logger.makeRecord(logger.name, logging.WARNING, "", 1, "%d of it", (3,), None)
        record.created = NOON
        logger.handle(record)
    assert stream.getvalue() == "2023-11-14T22:13:20.250Z WARN  penstock.somewhere: 3 of it\n"


def test_levels_have_kafkas_names() -> None:
    levels = [logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG, 5]
    lines = said(LogLevel.TRACE, *((each, "x") for each in levels))
    assert [line.split()[1] for line in lines] == [
        "FATAL",
        "ERROR",
        "WARN",
        "INFO",
        "DEBUG",
        "TRACE",
    ]


def test_what_is_below_the_level_is_not_shown() -> None:
    lines = said(LogLevel.INFO, (logging.DEBUG, "small"), (logging.INFO, "large"))
    assert [line.rpartition(" ")[2] for line in lines] == ["large"]


def test_a_message_is_one_line_whatever_a_client_put_into_it() -> None:
    [line] = said(LogLevel.INFO, (logging.WARNING, "a name\r\n2026 INFO lies\x1b[2J\u2028é"))
    assert line.endswith(r"a name\r\n2026 INFO lies\x1b[2J\u2028é")


def test_a_traceback_follows_its_message_indented() -> None:
    stream = io.StringIO()
    with logging_to(stream, LogLevel.INFO):
        try:
            raise ValueError("one\ntwo")
        except ValueError:
            logging.getLogger("penstock.somewhere").exception("it broke")
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("it broke")
    assert rest[-2:] == ["    ValueError: one", "    two"]
    assert all(line.startswith("    ") for line in rest)


def test_afterwards_logging_is_as_it_was() -> None:
    ours = logging.getLogger("penstock")
    before = (list(logging.root.handlers), logging.root.level, list(ours.handlers), ours.level)
    said(LogLevel.DEBUG, (logging.INFO, "x"))
    after = (list(logging.root.handlers), logging.root.level, list(ours.handlers), ours.level)
    assert after == before


class Talking(FakeNode):
    def run_node(
        self,
        config: BrokerConfig,
        announce: Callable[[Running], None],
        cluster_id: str | None = None,
        watch: object = None,
    ) -> int:
        code = super().run_node(config, announce, cluster_id, watch)
        logging.getLogger("penstock.node").info("by the way")
        logging.getLogger("penstock.node").debug("in detail")
        return code


@pytest.fixture
def talking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "penstock.node", Talking())
    monkeypatch.delenv("PENSTOCK_LOG_LEVEL", raising=False)


@pytest.mark.usefixtures("talking")
def test_start_shows_what_is_worth_knowing_on_stderr() -> None:
    ran = run("start")
    assert ran.err.endswith("Z INFO  penstock.node: by the way\n")
    assert ran.err.count("\n") == 1
    assert "by the way" not in ran.out


@pytest.mark.usefixtures("talking")
@pytest.mark.parametrize("word", ["DEBUG", "debug"])
def test_the_level_is_an_option(word: str) -> None:
    assert "in detail" in run("start", "--log-level", word).err
    assert run("start", "--log-level", "warn").err == ""


@pytest.mark.usefixtures("talking")
def test_the_level_is_a_variable_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_LOG_LEVEL", "ERROR")
    assert run("start").err == ""
    assert "by the way" in run("start", "--log-level", "INFO").err


@pytest.mark.usefixtures("talking")
def test_a_level_that_is_none_names_those_there_are() -> None:
    ran = run("start", "--log-level", "loud")
    assert ran.code == 2
    assert "'trace', 'debug', 'info', 'warn', 'error', 'fatal'" in ran.err


def test_a_real_node_tells_what_it_opened(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        with Admin(bootstrap=node.bootstrap) as admin:
            admin.create_topics([NewTopic("t", partitions=3)])
        assert node.terminate()[0] == 0
    with NodeProcess(tmp_path / "data") as node:
        assert node.terminate()[0] == 0
        lines = node.stderr.splitlines()
    assert [line for line in lines if "INFO  penstock.loading: opened 3 partitions in" in line]
    assert [line for line in lines if not LINE.fullmatch(line)] == []
