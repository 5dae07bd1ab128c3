"""SASL mechanisms against the examples of their standards, and against scripted servers."""

import base64
import hashlib
import hmac
import http.server
import json
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted_cluster import ScriptedCluster

from penstock.client.cluster.nodes import Nodes
from penstock.client.transport.connection import Connection, NotAuthenticated
from penstock.client.transport.sasl import OAuthBearer, new_nonce
from penstock.client.transport.security import Security
from penstock.client.transport.tokens import EndpointTokens, FileTokens, UnsecuredTokens
from penstock.credentials.mechanism import AuthenticationFailed
from penstock.credentials.plain import SaslPlain
from penstock.credentials.scram import Scram, ScramExchange
from penstock.wire.messages import k17_sasl_handshake as k17
from penstock.wire.messages import k36_sasl_authenticate as k36

HANDSHAKE, AUTHENTICATE = 17, 36
MODULES = "org.apache.kafka.common.security"


# -- SCRAM: the example of RFC 7677, section 3

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
).encode()
CLIENT_FINAL = (
    f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
).encode()
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def exchange() -> ScramExchange:
    begun = ScramExchange("SCRAM-SHA-256", "user", "pencil", nonce=NONCE)
    assert begun.first() == f"n,,n=user,r={NONCE}".encode()
    return begun


def test_scram_says_what_the_standard_says() -> None:
    begun = exchange()
    assert begun.answer(SERVER_FIRST) == CLIENT_FINAL
    assert begun.answer(SERVER_FINAL) is None


def test_a_server_that_does_not_know_the_password_is_found_out() -> None:
    begun = exchange()
    begun.answer(SERVER_FIRST)
    with pytest.raises(AuthenticationFailed, match="may be a false one"):
        begun.answer(b"v=" + base64.b64encode(bytes(32)))


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (b"e=other-error", "refused: other-error"),
        (b"r=other,s=W22Z,i=4096", "nonce"),
        (f"r={NONCE},s=W22Z,i=4096".encode(), "nonce"),
        (f"r={NONCE}x,s=W22Z,i=100".encode(), "100 iterations"),
        (f"r={NONCE}x,s=W22Z,i=1000001".encode(), "1000001 iterations"),
        (f"m=ext,r={NONCE}x,s=W22Z,i=4096".encode(), "extension"),
        (f"r={NONCE}x,i=4096".encode(), "not complete"),
        (f"r={NONCE}x,s=!,i=4096".encode(), "base64"),
        (b"\xff\xfe", "not text"),
        (f"r={NONCE}x,s=W22Z,i={'9' * 5000}".encode(), "more than 1000000 iterations"),
        (f"r={NONCE}x,s=W22Z,i=\u0664\u0660\u0669\u0666".encode(), "not complete"),
        (b"r=" + b"x" * 20_000, "20002 bytes"),
    ],
)
def test_a_server_that_breaks_the_rules_of_scram_is_refused(said: bytes, problem: str) -> None:
    with pytest.raises(AuthenticationFailed, match=problem):
        exchange().answer(said)


def test_a_name_with_signs_of_scram_is_escaped() -> None:
    begun = ScramExchange("SCRAM-SHA-512", "a=b,c", "p", token=True, nonce="x")
    assert begun.first() == b"n,,n=a=3Db=2Cc,r=x,tokenauth=true"


def test_every_exchange_has_a_nonce_of_its_own() -> None:
    mechanism = Scram("SCRAM-SHA-256", "user", "pencil")
    assert mechanism.begin(new_nonce()).first() != mechanism.begin(new_nonce()).first()


# -- the others


def test_plain_says_name_and_password() -> None:
    begun = SaslPlain("alice", "secret").begin("")
    assert begun.first() == b"\0alice\0secret"
    assert begun.answer(b"") is None


def decoded(token: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    head, body, signature = token.split(".")
    parts = (json.loads(base64.urlsafe_b64decode(each + "==")) for each in (head, body))
    return (*parts, signature)


def test_an_unsecured_token_has_the_claims_of_its_options() -> None:
    source = UnsecuredTokens(
        {
            "unsecuredLoginStringClaim_sub": "alice",
            "unsecuredLoginNumberClaim_level": "3.5",
            "unsecuredLoginListClaim_scope": "|a|b c",
            "unsecuredLoginLifetimeSeconds": "60",
        }
    )
    head, claims, signature = decoded(source.token())
    assert (head, signature) == ({"alg": "none"}, "")
    assert (claims["sub"], claims["level"], claims["scope"]) == ("alice", 3.5, ["a", "b c"])
    assert claims["exp"] - claims["iat"] == pytest.approx(60)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "needs its principal"),
        ({"unsecuredLoginStringClaim_sub": ""}, "needs its principal"),
        ({"unsecuredLoginStringClaim_exp": "1"}, "claim exp is made by the client"),
        ({"unsecuredLoginNumberClaim_sub": "x"}, "could not convert"),
    ],
)
def test_options_that_make_no_token_are_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        UnsecuredTokens(options).claims()


class Fixed:
    """A source of one token."""

    def token(self) -> str:
        return "abc.def."


def test_a_bearer_token_travels_with_its_extensions() -> None:
    begun = OAuthBearer(Fixed(), {"traceId": "1 2"}).begin("")
    assert begun.first() == b"n,,\x01auth=Bearer abc.def.\x01traceId=1 2\x01\x01"
    assert begun.answer(b"") is None


def test_a_refused_token_is_acknowledged_and_then_told() -> None:
    begun = OAuthBearer(Fixed()).begin("")
    begun.first()
    assert begun.answer(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        begun.answer(b"")


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a1": "x"}, {"a": "\x01"}, {"a": ""}])
def test_extensions_that_cannot_travel_are_refused(extensions: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="SASL extension"):
        OAuthBearer(Fixed(), extensions)


# -- tokens from elsewhere


class Endpoint(http.server.BaseHTTPRequestHandler):
    """Answers as its server says, and keeps what it was asked."""

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        server: Any = self.server
        server.asked.append((self.headers["Authorization"], self.rfile.read(size).decode()))
        code, answer = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[Any]:
    server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    server.asked, server.answers = [], [(200, {"access_token": "abc", "expires_in": 100})]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def tokens_from(endpoint: Any, scope: str | None = None) -> EndpointTokens:
    url = f"http://127.0.0.1:{endpoint.server_address[1]}/token"
    return EndpointTokens(url, "me", "my secret", scope)


def test_a_token_is_fetched_with_the_clients_credentials(endpoint: Any) -> None:
    assert tokens_from(endpoint, "a b").token() == "abc"
    [(authorization, body)] = endpoint.asked
    assert authorization == "Basic " + base64.b64encode(b"me:my secret").decode()
    assert urllib.parse.parse_qs(body) == {"grant_type": ["client_credentials"], "scope": ["a b"]}


def test_a_token_is_fetched_once_while_it_lives(endpoint: Any) -> None:
    source = tokens_from(endpoint)
    assert [source.token(), source.token()] == ["abc", "abc"]
    assert len(endpoint.asked) == 1


def test_a_token_that_is_about_to_end_is_fetched_anew(endpoint: Any) -> None:
    endpoint.answers = [(200, {"access_token": "abc", "expires_in": 0})]
    source = tokens_from(endpoint)
    source.token()
    source.token()
    assert len(endpoint.asked) == 2


def test_a_lifetime_is_read_from_the_token_itself(endpoint: Any) -> None:
    token = UnsecuredTokens({"unsecuredLoginStringClaim_sub": "x"}).token()
    endpoint.answers = [(200, {"access_token": token})]
    source = tokens_from(endpoint)
    source.token()
    source.token()
    assert len(endpoint.asked) == 1


def test_an_endpoint_in_trouble_is_asked_again(
    endpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.client.transport.tokens.FETCH_PAUSE_SECONDS", 0)
    endpoint.answers = [(503, {}), (200, {"access_token": "abc"})]
    assert tokens_from(endpoint).token() == "abc"


def test_an_endpoint_that_refuses_is_not_asked_again(endpoint: Any) -> None:
    endpoint.answers = [(401, {})]
    with pytest.raises(AuthenticationFailed, match="HTTP 401") as failed:
        tokens_from(endpoint).token()
    assert len(endpoint.asked) == 1
    assert "secret" not in str(failed.value)


def test_a_token_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n")
    assert FileTokens(str(tmp_path / "token")).token() == "abc"
    with pytest.raises(AuthenticationFailed, match="cannot be read"):
        FileTokens(str(tmp_path / "none")).token()


# -- over a connection


class ScramServer:
    """The other side of SCRAM, for one user."""

    def __init__(self, password: str, hash_name: str) -> None:
        self.password, self.hash_name = password, hash_name
        self.first_bare = self.first = ""

    def handshake(self, request: k17.SaslHandshakeRequest, _: int) -> k17.SaslHandshakeResponse:
        known = request.mechanism.startswith("SCRAM")
        return k17.SaslHandshakeResponse(
            error_code=0 if known else 33, mechanisms=["SCRAM-SHA-256", "SCRAM-SHA-512"]
        )

    def authenticate(
        self, request: k36.SaslAuthenticateRequest, _version: int
    ) -> k36.SaslAuthenticateResponse:
        said = request.auth_bytes.decode()
        if said.startswith("n,,"):
            self.first_bare = said[3:]
            nonce = self.first_bare.partition("r=")[2]
            self.first = f"r={nonce}more,s={base64.b64encode(b'salt').decode()},i=4096"
            return k36.SaslAuthenticateResponse(auth_bytes=self.first.encode())
        final, _, proof = said.partition(",p=")
        salted = hashlib.pbkdf2_hmac(self.hash_name, self.password.encode(), b"salt", 4096)
        signed = ",".join([self.first_bare, self.first, final]).encode()
        client_key = hmac.digest(salted, b"Client Key", self.hash_name)
        stored = hashlib.new(self.hash_name, client_key).digest()
        signature = hmac.digest(stored, signed, self.hash_name)
        wanted = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        if base64.b64decode(proof) != wanted:
            return k36.SaslAuthenticateResponse(error_code=58, error_message="wrong password")
        server_key = hmac.digest(salted, b"Server Key", self.hash_name)
        verifier = base64.b64encode(hmac.digest(server_key, signed, self.hash_name))
        return k36.SaslAuthenticateResponse(auth_bytes=b"v=" + verifier, session_lifetime_ms=50)

    @property
    def answers(self) -> dict[int, Any]:
        return {HANDSHAKE: self.handshake, AUTHENTICATE: self.authenticate}


def scram(password: str, mechanism: str = "SCRAM-SHA-256") -> Security:
    return Security.from_properties(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required "
            f'username="alice" password="{password}";',
        }
    )


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_connection_authenticates_before_anything_else(mechanism: str) -> None:
    server = ScramServer("pencil", mechanism.replace("SCRAM-SHA-", "sha"))
    with ScriptedCluster(answers=server.answers) as cluster:
        Connection("127.0.0.1", cluster.port(1), security=scram("pencil", mechanism)).close()
        assert [key for _, key, _, _ in cluster.asked] == [18, 17, 36, 36]
        assert [version for _, key, version, _ in cluster.asked if key != 18] == [1, 2, 2]


def test_an_older_server_is_authenticated_to_in_its_version() -> None:
    server = ScramServer("pencil", "sha256")
    with ScriptedCluster(answers=server.answers, highest={AUTHENTICATE: 0}) as cluster:
        Connection("127.0.0.1", cluster.port(1), security=scram("pencil")).close()
        assert [version for _, key, version, _ in cluster.asked if key == 36] == [0, 0]


def test_a_wrong_password_is_said_with_the_servers_words() -> None:
    server = ScramServer("pencil", "sha256")
    with ScriptedCluster(brokers=2, answers=server.answers) as cluster:
        with pytest.raises(
            NotAuthenticated, match=r"SCRAM-SHA-256: wrong password\. Check the user and password"
        ) as failed:
            Nodes(cluster.bootstrap, security=scram("crayon")).any()
        assert "crayon" not in str(failed.value)
        # One refusal is enough: more could lock the account.
        assert len({node for node, _, _, _ in cluster.asked}) == 1


def test_a_mechanism_that_the_server_has_not_is_said_with_those_it_has() -> None:
    server = ScramServer("pencil", "sha256")
    plain = Security(mechanism=SaslPlain("alice", "secret"))
    with (
        ScriptedCluster(answers=server.answers) as cluster,
        pytest.raises(
            NotAuthenticated, match=r"it offers SCRAM-SHA-256, SCRAM-SHA-512\. Set sasl\.mechanism"
        ),
    ):
        Connection("127.0.0.1", cluster.port(1), security=plain)


def test_a_server_without_sasl_is_said() -> None:
    with (
        ScriptedCluster() as cluster,
        pytest.raises(NotAuthenticated, match=r"does not offer SASL\. Set security\.protocol"),
    ):
        Connection("127.0.0.1", cluster.port(1), security=scram("pencil"))


def test_a_connection_whose_authentication_ends_is_replaced_and_finishes_what_it_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = ScramServer("pencil", "sha256")
    with ScriptedCluster(answers=server.answers) as cluster:
        nodes = Nodes(cluster.bootstrap, security=scram("pencil"))
        first = nodes.any()
        pending = first.begin(k17.SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        now = first._expires_at
        assert now is not None
        monkeypatch.setattr("time.monotonic", lambda: now + 1)
        second = nodes.any()
        assert second is not first
        assert not first.closed
        first.finish(pending, k17.SaslHandshakeResponse)
        nodes.close()
        assert first.closed and second.closed
