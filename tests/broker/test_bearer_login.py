"""OAUTHBEARER on a simulated node: keys are fetched, kept, fetched again, and sessions end."""

import pytest
from sasl_talk import AUTHENTICATE, LoginTalk
from simulated_node import Bench, metadata

from penstock.broker.network.connection import BrokerConnection
from penstock.credentials.principal import Principal
from penstock.security.login.bearer import INVALID_TOKEN
from penstock.wire.messages.k36_sasl_authenticate import SaslAuthenticateResponse
from token_issuer import AUDIENCE, ISSUER, Issuer, key_set, message_of

URL = "https://issuer.example/keys"
BEARER = "OAUTHBEARER"
SETTINGS = {
    "listeners": "PLAINTEXT://node:9092,SASL://node:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": BEARER,
    "listener.name.sasl.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": URL,
    "listener.name.sasl.oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
    "sasl.oauthbearer.expected.audience": AUDIENCE,
}
FIRST, SECOND = Issuer("first"), Issuer("second")


@pytest.fixture
def bench() -> Bench:
    made = Bench(SETTINGS)
    made.world.pages[URL] = key_set(FIRST)
    made.settle(1_000)  # the first attempts have failed
    return made


def now_s(bench: Bench) -> int:
    return bench.world.clock.wall_ms() // 1000


def token_of(bench: Bench, issuer: Issuer, lifetime_s: int = 60) -> str:
    return issuer.token(iat=now_s(bench), exp=now_s(bench) + lifetime_s)


def log_in(talk: LoginTalk, token: str) -> SaslAuthenticateResponse:
    assert talk.handshake(BEARER).error_code == 0
    return talk.authenticate(message_of(token))


def logs_in(bench: Bench, token: str) -> bool:
    talk = LoginTalk(bench)
    log_in(talk, token)
    return isinstance(talk.receiver, BrokerConnection)


def test_a_token_makes_the_principal_and_the_end_of_the_session(bench: Bench) -> None:
    talk = LoginTalk(bench)
    answer = log_in(talk, token_of(bench, FIRST))
    assert (answer.error_code, answer.auth_bytes) == (0, b"")
    assert 58_000 < answer.session_lifetime_ms <= 60_000
    assert talk.receiver.caller.principal == Principal("alice")
    bench.settle(60_000)
    assert talk.ask(metadata(), 12) is None and talk.peer.closed


def test_a_bad_token_gets_its_status_and_then_the_failure(bench: Bench) -> None:
    talk = LoginTalk(bench)
    answer = log_in(talk, token_of(bench, FIRST, lifetime_s=-60))
    assert (answer.error_code, answer.auth_bytes) == (0, INVALID_TOKEN)
    assert talk.authenticate(b"\x01") is None
    bench.settle(101)
    assert talk.answer(AUTHENTICATE, 2).error_code == 58


def test_a_session_is_prolonged_by_another_token(bench: Bench) -> None:
    talk = LoginTalk(bench)
    log_in(talk, token_of(bench, FIRST, lifetime_s=10))
    bench.settle(5_000)
    assert log_in(talk, token_of(bench, FIRST, lifetime_s=60)).error_code == 0
    bench.settle(20_000)
    assert talk.ask(metadata(), 12) is not None


def test_before_the_keys_are_there_no_token_logs_in() -> None:
    bench = Bench(SETTINGS)
    assert not logs_in(bench, token_of(bench, FIRST))


def test_an_unknown_key_has_the_keys_fetched_once_per_backoff(bench: Bench) -> None:
    bench.settle(11_000)
    bench.world.pages[URL] = key_set(FIRST, SECOND)
    before = bench.world.fetches
    assert not any(logs_in(bench, token_of(bench, SECOND)) for _ in range(5))
    bench.settle(1_000)
    assert bench.world.fetches == before + 1
    assert logs_in(bench, token_of(bench, SECOND))
    stranger = Issuer("stranger")
    for _ in range(50):
        assert not logs_in(bench, token_of(bench, stranger))
        bench.settle(100)
    assert bench.world.fetches == before + 1


def test_keys_are_kept_while_the_issuer_is_away(bench: Bench) -> None:
    del bench.world.pages[URL]
    bench.settle(2 * 3_600_000)
    assert logs_in(bench, token_of(bench, FIRST))
    bench.world.pages[URL] = key_set(SECOND)
    bench.settle(11_000)
    assert logs_in(bench, token_of(bench, SECOND))
    assert not logs_in(bench, token_of(bench, FIRST))


def test_a_stopped_node_fetches_nothing(bench: Bench) -> None:
    bench.node.stop()
    bench.simulation.run_until(lambda: bench.stopped)
    before = bench.world.fetches
    bench.settle(3 * 3_600_000)
    assert bench.world.fetches == before
