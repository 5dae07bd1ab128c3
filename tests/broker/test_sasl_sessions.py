"""Sessions with an end: later logins, and what is refused between (KIP-368)."""

import json
import logging
from collections.abc import Callable

import pytest
from sasl_talk import ALICE, CAROL, SCRAM, SETTINGS, LoginTalk, add_user, sasl_listener
from simulated_node import PRODUCE, Bench, metadata, produce

from penstock.credentials.plain import SaslPlain
from penstock.wire.messages import k17_sasl_handshake as k17
from penstock.wire.messages import k36_sasl_authenticate as k36

LIFETIME_MS = 5_000
BOB = SaslPlain("bob", "b")
LATE_HANDSHAKE = k17.SaslHandshakeRequest(mechanism="PLAIN")


@pytest.fixture(scope="module")
def shared() -> Bench:
    bench = Bench({**SETTINGS, "connections.max.reauth.ms": str(LIFETIME_MS)})
    bench.create_topic("t")
    add_user(bench, CAROL)
    return bench


@pytest.fixture
def talk(shared: Bench) -> LoginTalk:
    made = LoginTalk(shared)
    assert made.log_in().session_lifetime_ms == LIFETIME_MS
    return made


def serves(talk: LoginTalk) -> bool:
    return talk.ask(metadata(), 12) is not None and not talk.peer.closed


def test_requests_are_served_until_the_end_of_the_session(talk: LoginTalk) -> None:
    talk.bench.settle(LIFETIME_MS - 10)
    assert serves(talk)


def _ask_metadata(talk: LoginTalk) -> bytes:
    return talk.frame(metadata(), 12)


def _produce(talk: LoginTalk) -> bytes:
    return talk.bench.frame(PRODUCE, produce("t", b"late"))


@pytest.mark.parametrize("request_of", [_ask_metadata, _produce])
@pytest.mark.parametrize("parts", [1, 2])
def test_a_request_after_the_end_closes_the_connection(
    talk: LoginTalk, request_of: Callable[[LoginTalk], bytes], parts: int
) -> None:
    logins = sasl_listener(talk.bench).logins
    assert logins is not None
    before = logins.expired, talk.bench.broker.find("t", 0).log.end_offset
    talk.bench.settle(LIFETIME_MS + 1)
    data = request_of(talk)
    for piece in (data,) if parts == 1 else (data[:10], data[10:]):
        talk.send_bytes(piece)
    assert talk.peer.closed and not talk.peer.sent
    expected = before[0] + 1, before[1]
    assert (logins.expired, talk.bench.broker.find("t", 0).log.end_offset) == expected


def test_a_request_that_began_before_the_end_is_not_served_after_it(talk: LoginTalk) -> None:
    data = _produce(talk)
    talk.send_bytes(data[:20])
    talk.bench.settle(LIFETIME_MS + 1)
    talk.send_bytes(data[20:])
    assert talk.peer.closed


@pytest.mark.parametrize("age_ms", [2_000, LIFETIME_MS + 1_000])
def test_another_login_prolongs_the_session(talk: LoginTalk, age_ms: int) -> None:
    talk.bench.settle(age_ms)
    assert talk.log_in().session_lifetime_ms == LIFETIME_MS
    talk.bench.settle(LIFETIME_MS - 10)
    assert serves(talk)
    talk.bench.settle(20)
    assert not serves(talk)


def test_scram_logs_in_again_too(shared: Bench) -> None:
    talk = LoginTalk(shared)
    talk.log_in(CAROL)
    shared.settle(2_000)
    assert talk.log_in(CAROL).session_lifetime_ms == LIFETIME_MS
    assert serves(talk)


def test_later_logins_are_a_second_apart(talk: LoginTalk) -> None:
    assert talk.log_in().error_code == 0
    talk.bench.settle(900)
    assert talk.handshake().error_code == 34
    assert serves(talk)
    talk.bench.settle(101)
    assert talk.log_in().error_code == 0


def test_a_handshake_of_an_old_client_is_not_a_later_login(talk: LoginTalk) -> None:
    talk.bench.settle(2_000)
    assert talk.handshake(version=0).error_code == 34


def test_a_message_without_a_later_handshake_is_refused(talk: LoginTalk) -> None:
    assert talk.authenticate(ALICE.begin("").first()).error_code == 34
    assert serves(talk)


@pytest.mark.parametrize("is_over", [False, True])
def test_nothing_else_is_served_amid_a_later_login(talk: LoginTalk, is_over: bool) -> None:
    talk.bench.settle(LIFETIME_MS + 1_000 if is_over else 2_000)
    assert talk.handshake().error_code == 0
    assert talk.ask(metadata(), 12) is None
    assert talk.peer.closed


def test_a_request_right_behind_a_late_handshake_is_not_served(talk: LoginTalk) -> None:
    talk.bench.settle(LIFETIME_MS + 1_000)
    end_offset = talk.bench.broker.find("t", 0).log.end_offset
    talk.send_bytes(talk.frame(LATE_HANDSHAKE, 1) + _produce(talk))
    talk.bench.settle()
    assert talk.peer.closed
    assert talk.bench.broker.find("t", 0).log.end_offset == end_offset


def test_a_request_between_the_messages_of_a_late_login_is_not_served(shared: Bench) -> None:
    talk = LoginTalk(shared)
    talk.log_in(CAROL)
    shared.settle(LIFETIME_MS + 1_000)
    talk.handshake(SCRAM)
    shared.settle(10)
    first = k36.SaslAuthenticateRequest(auth_bytes=CAROL.begin("n").first())
    talk.send_bytes(talk.frame(first, 2) + talk.frame(metadata(), 12))
    shared.settle(10)
    assert talk.answer(36, 2).error_code == 0
    assert talk.peer.closed and not talk.peer.sent


@pytest.mark.parametrize(
    ("user", "mechanism"), [(BOB, "PLAIN"), (SaslPlain("alice", "wrong"), "PLAIN"), (CAROL, SCRAM)]
)
def test_another_principal_or_mechanism_fails_and_is_closed(
    talk: LoginTalk, user: SaslPlain, mechanism: str
) -> None:
    talk.bench.settle(2_000)
    assert talk.handshake(mechanism).error_code == 0
    assert talk.exchange(user) is None
    talk.bench.settle(101)
    answer = talk.answer(36, 2)
    assert answer.error_code == 58
    assert answer.error_message.startswith("Authentication failed during re-authentication")
    assert talk.peer.closed


def test_an_unknown_mechanism_at_a_later_login_is_closed(talk: LoginTalk) -> None:
    talk.bench.settle(2_000)
    assert talk.handshake("GSSAPI") is None
    talk.bench.settle(101)
    assert talk.answer(17, 1).error_code == 33
    assert talk.peer.closed


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SASL"])
def test_without_an_end_there_is_no_later_login(listener: str) -> None:
    bench = Bench(SETTINGS)
    found = next(each for each in bench.broker.listeners if each.name == listener)
    talk = LoginTalk(bench, found)
    if listener == "SASL":
        talk.log_in()
    bench.settle(2_000)
    assert talk.handshake().error_code == 34
    assert talk.authenticate(b"").error_code == 34
    assert serves(talk)


def test_later_logins_are_in_the_audit_log(
    talk: LoginTalk, caplog: pytest.LogCaptureFixture
) -> None:
    talk.bench.settle(61_000 - LIFETIME_MS)  # another window of the log begins
    other = LoginTalk(talk.bench)
    other.log_in()
    with caplog.at_level(logging.INFO, "penstock.audit"):
        other.bench.settle(1_000)
        other.log_in()
        other.bench.settle(1_000)
        other.handshake()
        other.exchange(BOB)
    lines = [json.loads(each.message) for each in caplog.records if each.name == "penstock.audit"]
    shown = [(each["principal"], each["verdict"], each["rule"]) for each in lines]
    assert shown == [
        ("User:alice", "allowed", "its proof was right"),
        ("User:alice", "denied", "another principal than at the first login"),
    ]


def test_later_logins_are_counted(talk: LoginTalk) -> None:
    logins = sasl_listener(talk.bench).logins
    assert logins is not None
    before = logins.successful_again, logins.failed_again
    talk.bench.settle(2_000)
    talk.log_in()
    talk.bench.settle(2_000)
    talk.handshake()
    talk.exchange(BOB)
    assert (logins.successful_again, logins.failed_again) == (before[0] + 1, before[1] + 1)
