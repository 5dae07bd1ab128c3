"""Refusals are counted, and said once in a while rather than each time."""

import logging

import pytest

from penstock.broker.background.throttled_log import KINDS_MAX, LOGGED_PER_REASON_MAX, ThrottledLog

PEER = ("10.0.0.1", 5000)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    told = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    caplog.clear()
    return told


def test_the_first_few_of_a_reason_are_said(caplog: pytest.LogCaptureFixture) -> None:
    observer = ThrottledLog()
    for size in range(50):
        observer.protocol_error(PEER, f"a frame of {size} bytes")
    told = warnings(caplog)
    assert len(told) == LOGGED_PER_REASON_MAX
    assert told[0] == "closed the connection from 10.0.0.1:5000: it sent a frame of 0 bytes"
    assert observer.rejected == 50


def test_one_reason_does_not_silence_another(caplog: pytest.LogCaptureFixture) -> None:
    observer = ThrottledLog()
    for _ in range(50):
        observer.protocol_error(PEER, "a frame of 7 bytes")
    warnings(caplog)
    observer.protocol_error(PEER, "a malformed Fetch request v4: too short")
    assert len(warnings(caplog)) == 1


def test_what_was_left_out_is_counted_when_the_window_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    observer = ThrottledLog()
    for size in range(LOGGED_PER_REASON_MAX + 32):
        observer.protocol_error(PEER, f"a frame of {size} bytes")
    warnings(caplog)
    observer.sum_up()
    assert warnings(caplog) == [
        "32 more connections were closed and not told of one by one; the last, from "
        "10.0.0.1:5000: it sent a frame of 41 bytes"
    ]
    observer.sum_up()
    assert warnings(caplog) == []


def test_a_new_window_says_the_first_few_again(caplog: pytest.LogCaptureFixture) -> None:
    observer = ThrottledLog()
    for _ in range(50):
        observer.protocol_error(PEER, "a frame of 7 bytes")
    observer.sum_up()
    warnings(caplog)
    observer.protocol_error(PEER, "a frame of 7 bytes")
    assert len(warnings(caplog)) == 1


def test_reasons_that_peers_invent_do_not_grow_without_limit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    observer = ThrottledLog()
    names = ["".join(chr(97 + int(digit)) for digit in str(number)) for number in range(5_000)]
    for name in names:
        observer.protocol_error(PEER, f"a {name}")
    assert len(warnings(caplog)) <= KINDS_MAX + LOGGED_PER_REASON_MAX
    observer.sum_up()
    assert len(warnings(caplog)) == 1


def test_a_limit_on_connections_is_no_fault_in_what_was_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ThrottledLog().limit_reached(PEER, "max.connections.per.ip=3 are open from there")
    assert warnings(caplog) == [
        "closed the connection from 10.0.0.1:5000: max.connections.per.ip=3 are open from there"
    ]
