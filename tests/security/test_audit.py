"""The audit log: JSON lines, of which a caller gets ten a minute."""

import json
import logging

import pytest

from penstock.credentials.principal import Caller, Principal
from penstock.security.audit import DENIED, LINES_PER_CALLER_MAX, AuditEntry, AuditLog

ANN, BOB = (Caller(Principal(name), "10.0.0.1") for name in ("ann", "bob"))
ENTRY = AuditEntry("Fetch", "READ", "TOPIC:orders", DENIED, "no ACL allows it")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "penstock.audit")
    return caplog


def test_an_entry_is_one_json_line(lines: pytest.LogCaptureFixture) -> None:
    AuditLog(lambda: 1_700_000_000_123, lambda: None).write(ANN, ENTRY)
    assert json.loads(lines.messages[0]) == {
        "time": "2023-11-14T22:13:20.123Z",
        "principal": "User:ann",
        "address": "10.0.0.1",
        "api": "Fetch",
        "operation": "READ",
        "resource": "TOPIC:orders",
        "verdict": "denied",
        "rule": "no ACL allows it",
    }


def test_a_name_cannot_break_the_line(lines: pytest.LogCaptureFixture) -> None:
    AuditLog(lambda: 0, lambda: None).write(ANN, ENTRY._replace(resource='TOPIC:a\n"b'))
    assert "\n" not in lines.messages[0]


def test_more_lines_of_a_caller_become_a_sum(lines: pytest.LogCaptureFixture) -> None:
    windows: list[int] = []
    audit = AuditLog(lambda: 0, lambda: windows.append(1))
    for _ in range(LINES_PER_CALLER_MAX + 7):
        audit.write(ANN, ENTRY)
    audit.write(BOB, ENTRY)
    assert len(lines.messages) == LINES_PER_CALLER_MAX + 1
    audit.end_window()
    assert json.loads(lines.messages[-1])["left_out"] == 7
    assert json.loads(lines.messages[-1])["principal"] == "User:ann"
    audit.write(ANN, ENTRY)
    assert json.loads(lines.messages[-1])["verdict"] == "denied"
    assert len(windows) == 2
