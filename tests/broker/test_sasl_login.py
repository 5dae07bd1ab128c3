"""Before a login: three APIs, small frames, a deadline; failures; and the principal in the end."""

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sasl_talk import (
    ALICE,
    AUTHENTICATE,
    CAROL,
    HANDSHAKE,
    JAAS_KEY,
    SCRAM,
    SETTINGS,
    LoginTalk,
    add_user,
    remove_user,
    sasl_listener,
)
from simulated_node import Bench, api_versions, metadata

from penstock.broker.network.connection import BrokerConnection
from penstock.broker.network.login_connection import LOGIN_MS_MAX, LoginConnection
from penstock.credentials.plain import SaslPlain
from penstock.credentials.principal import Caller, Principal
from penstock.credentials.scram import Scram
from penstock.security.login.login import failure_text
from penstock.wire.messages import k17_sasl_handshake as k17
from penstock.wire.messages import k36_sasl_authenticate as k36

DELAY_MS = 100


@pytest.fixture(scope="module")
def shared() -> Bench:
    bench = Bench(SETTINGS)
    assert add_user(bench, CAROL) == [0]
    return bench


def is_serving(talk: LoginTalk) -> bool:
    answer = talk.ask(metadata(), 12)
    return answer is not None and not answer.error_code


# -- logins that succeed


@pytest.mark.parametrize("user", [ALICE, CAROL], ids=["PLAIN", SCRAM])
def test_a_login_makes_the_principal_of_the_connection(
    shared: Bench, user: SaslPlain | Scram
) -> None:
    talk = LoginTalk(shared)
    answer = talk.log_in(user)
    assert (answer.error_code, answer.session_lifetime_ms) == (0, 0)
    assert isinstance(talk.receiver, BrokerConnection)
    assert talk.receiver.caller == Caller(Principal(user.username), "10.0.0.1")
    assert is_serving(talk)


def test_a_client_may_ask_for_the_versions_first(shared: Bench) -> None:
    talk = LoginTalk(shared)
    keys = {each.api_key for each in talk.ask(api_versions(), 3).api_keys}
    assert {HANDSHAKE, AUTHENTICATE} < keys
    assert talk.log_in().error_code == 0


def test_versions_from_the_future_may_be_asked_for_again(shared: Bench) -> None:
    talk = LoginTalk(shared)
    frame = bytearray(talk.frame(api_versions(), 4))
    frame[6:8] = (99).to_bytes(2)
    talk.send_bytes(bytes(frame))
    answer = talk.answer(18, 0)
    assert (answer.error_code, [each.api_key for each in answer.api_keys]) == (35, [18])
    assert talk.ask(api_versions(), 4).error_code == 0


def test_an_old_client_sends_bare_messages(shared: Bench) -> None:
    talk = LoginTalk(shared)
    assert talk.handshake(version=0).mechanisms == ["PLAIN", SCRAM]
    message = ALICE.begin("").first()
    talk.send_bytes(len(message).to_bytes(4) + message)
    assert talk.taken() == b""
    assert is_serving(talk)


def test_a_login_cut_at_any_byte_is_a_login(shared: Bench) -> None:
    talk = LoginTalk(shared)
    before = len(sasl_listener(shared).awaiting_login)
    data = talk.frame(k17.SaslHandshakeRequest(mechanism="PLAIN"), 1) + talk.frame(
        k36.SaslAuthenticateRequest(auth_bytes=ALICE.begin("").first()), 2
    )
    for cut in range(1, len(data)):
        talk = LoginTalk(shared)
        talk.send_bytes(data[:cut])
        talk.send_bytes(data[cut:])
        assert isinstance(talk.receiver, BrokerConnection), cut
        talk.receiver.closed()
    assert len(sasl_listener(shared).awaiting_login) == before


def test_requests_right_behind_the_login_are_served(shared: Bench) -> None:
    talk = LoginTalk(shared)
    talk.handshake()
    message = k36.SaslAuthenticateRequest(auth_bytes=ALICE.begin("").first())
    talk.send_bytes(talk.frame(message, 2) + talk.frame(metadata(), 12))
    assert talk.answer(AUTHENTICATE, 2).error_code == 0
    assert talk.answer(3, 12).controller_id >= 0


# -- logins that fail


@pytest.mark.parametrize(
    "user",
    [
        SaslPlain("alice", "wrong"),
        SaslPlain("stranger", "alice-secret"),
        Scram(SCRAM, "carol", "wrong"),
        Scram(SCRAM, "stranger", "carol-secret"),
    ],
)
def test_a_failed_login_is_answered_after_a_delay_and_closed(
    shared: Bench, user: SaslPlain | Scram
) -> None:
    talk = LoginTalk(shared)
    assert talk.log_in(user) is None
    shared.settle(DELAY_MS - 1)
    assert not talk.peer.sent
    shared.settle(2)
    answer = talk.answer(AUTHENTICATE, 2)
    assert (answer.error_code, answer.error_message) == (58, failure_text(user.name))
    assert talk.peer.finished
    shared.settle(1_100)
    assert talk.peer.closed


def test_an_unknown_mechanism_gets_the_list_and_is_closed(shared: Bench) -> None:
    talk = LoginTalk(shared)
    assert talk.handshake("GSSAPI") is None
    shared.settle(DELAY_MS + 1)
    answer = talk.answer(HANDSHAKE, 1)
    assert (answer.error_code, answer.mechanisms) == (33, ["PLAIN", SCRAM])
    assert talk.peer.finished


def test_nothing_is_read_after_a_failure(shared: Bench) -> None:
    talk = LoginTalk(shared)
    talk.handshake()
    talk.authenticate(b"\0alice\0wrong")
    assert talk.peer.paused
    assert talk.authenticate(ALICE.begin("").first()) is None
    assert isinstance(talk.receiver, LoginConnection)


def test_no_log_has_a_password(shared: Bench, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        LoginTalk(shared).log_in(SaslPlain("alice", "not the password"))
        LoginTalk(shared).log_in(ALICE)
    assert "its login failed: PLAIN: a wrong user or password" in caplog.text
    assert "not the password" not in caplog.text and "alice-secret" not in caplog.text


# -- what else is closed


@pytest.mark.parametrize("first", [None, "versions", "handshake"])
def test_another_request_before_the_login_is_closed_without_an_answer(
    shared: Bench, first: str | None
) -> None:
    talk = LoginTalk(shared)
    if first == "versions":
        talk.ask(api_versions(), 4)
    elif first == "handshake":
        talk.handshake()
    assert talk.ask(metadata(), 12) is None
    assert talk.peer.closed


def test_versions_are_asked_for_once(shared: Bench) -> None:
    talk = LoginTalk(shared)
    talk.ask(api_versions(), 4)
    assert talk.ask(api_versions(), 4) is None
    assert talk.peer.closed


def test_a_message_without_a_handshake_is_closed(shared: Bench) -> None:
    talk = LoginTalk(shared)
    assert talk.authenticate(ALICE.begin("").first()) is None
    assert talk.peer.closed


@pytest.mark.parametrize("size", [-1, 10_001, 2**31 - 1])
def test_a_frame_that_is_too_large_is_closed_unread(shared: Bench, size: int) -> None:
    talk = LoginTalk(shared)
    talk.send_bytes(size.to_bytes(4, signed=True))
    assert talk.peer.closed


def test_a_silent_peer_is_closed_at_the_deadline(shared: Bench) -> None:
    talk = LoginTalk(shared)
    talk.ask(api_versions(), 4)
    shared.settle(LOGIN_MS_MAX - 100)
    assert not talk.peer.closed
    shared.settle(200)
    assert talk.peer.closed


def test_connections_without_a_login_keep_few_bytes_together(
    shared: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.broker.network.login_connection.WAITING_BYTES_MAX", 20_000)
    start = (10_000).to_bytes(4) + bytes(9_000)
    talks = [LoginTalk(shared) for _ in range(3)]
    for talk in talks:
        talk.send_bytes(start)
    assert [talk.peer.closed for talk in talks] == [False, False, True]
    for talk in talks:
        talk.receiver.close()
    logins = sasl_listener(shared).logins
    assert logins is not None and logins.waiting_bytes == 0


@settings(max_examples=60)
@given(
    pieces=st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.sampled_from(
                [
                    b"\0\0\0\x14\0\x11\0\x01\0\0\0\x01\0\x04test\0\x05PLAIN",
                    b"\0\0\0\x0c\0\x24\0\x01\0\0\0\x01",
                    b"\x16\x03\x01\x02\0\x01",
                    b"GET / HTTP/1.1\r\n",
                ]
            ),
        ),
        max_size=6,
    )
)
def test_no_bytes_before_a_login_reach_a_handler(shared: Bench, pieces: list[bytes]) -> None:
    talk = LoginTalk(shared)
    before = dict(shared.broker.request_metrics.requests)
    for piece in pieces:
        if not talk.peer.closed:
            talk.send_bytes(piece)
    assert isinstance(talk.receiver, LoginConnection)
    assert dict(shared.broker.request_metrics.requests) == before
    talk.receiver.close()
    talk.receiver.closed()


# -- users that change


def test_a_removed_user_is_disconnected_and_others_stay(shared: Bench) -> None:
    dora = Scram(SCRAM, "dora", "dora-secret")
    add_user(shared, dora)
    talk, other, plain = LoginTalk(shared), LoginTalk(shared), LoginTalk(shared)
    talk.log_in(dora)
    other.log_in(CAROL)
    plain.log_in()
    assert remove_user(shared, dora) == [0]
    assert [each.peer.closed for each in (talk, other, plain)] == [True, False, False]
    again = LoginTalk(shared)
    assert again.log_in(dora) is None and not again.peer.sent


def test_another_password_keeps_the_connections(shared: Bench) -> None:
    eve = Scram(SCRAM, "eve", "one")
    add_user(shared, eve)
    talk = LoginTalk(shared)
    talk.log_in(eve)
    add_user(shared, Scram(SCRAM, "eve", "two"))
    assert not talk.peer.closed
    assert LoginTalk(shared).log_in(eve) is None
    assert LoginTalk(shared).log_in(Scram(SCRAM, "eve", "two")).error_code == 0


def test_the_users_of_plain_may_change_while_the_node_runs() -> None:
    bench = Bench(SETTINGS)
    talk = LoginTalk(bench)
    talk.log_in()
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    broker = bench.broker
    broker.config = broker.static_config.with_dynamic(
        {JAAS_KEY: f'{module} required user_frank="f";'}, {}
    )
    sasl_listener(bench).reconfigured()
    assert talk.peer.closed
    assert LoginTalk(bench).log_in() is None
    assert LoginTalk(bench).log_in(SaslPlain("frank", "f")).error_code == 0


def test_logins_are_counted(shared: Bench) -> None:
    logins = sasl_listener(shared).logins
    assert logins is not None
    before = (logins.successful, logins.failed)
    LoginTalk(shared).log_in()
    LoginTalk(shared).log_in(SaslPlain("alice", "wrong"))
    LoginTalk(shared).ask(metadata(), 12)
    assert (logins.successful, logins.failed) == (before[0] + 1, before[1] + 2)
