"""SCRAM on the server: the example of the standard, the client's other half, and failures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.credentials.scram import (
    HASHES,
    SALT_BYTES,
    Scram,
    encode_base64,
    salted_password,
    scram_fields,
    scram_keys,
)
from penstock.security.login.login import LoggedIn, LoginFailed
from penstock.security.login.scram_server import ScramLogin, ScramLogins, ScramSecret

MECHANISM = "SCRAM-SHA-256"
ITERATIONS = 4096
SALT = b"some salt of the server."

# The example of RFC 7677, section 3.
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_FIRST = f"n,,n=user,r={CLIENT_NONCE}".encode()
SERVER_FIRST = (f"r={CLIENT_NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096").encode()
CLIENT_FINAL = (
    f"c=biws,r={CLIENT_NONCE}{SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
).encode()
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def secret_of(mechanism: str, password: str, salt: bytes = SALT) -> ScramSecret:
    salted = salted_password(mechanism, password, salt, ITERATIONS)
    return ScramSecret(salt, ITERATIONS, scram_keys(mechanism, salted))


def logins(
    users: dict[str, ScramSecret], mechanism: str = MECHANISM, shared: bytes | None = None
) -> ScramLogins:
    return ScramLogins(mechanism, users.get, lambda _: None, shared)


PENCIL = secret_of(MECHANISM, "pencil", bytes.fromhex("5b6d99689d12358eeca04b141236fa81"))
USER = {"user": PENCIL}


def challenged(known: ScramLogins) -> ScramLogin:
    login = known.begin(SERVER_NONCE)
    assert login.answer(CLIENT_FIRST) == SERVER_FIRST
    return login


def test_the_example_of_the_standard() -> None:
    login = challenged(logins(USER))
    assert login.done is None
    assert login.answer(CLIENT_FINAL) == SERVER_FINAL
    assert login.done == LoggedIn("user")


@given(
    name=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20),
    password=st.text(max_size=20),
    mechanism=st.sampled_from(sorted(HASHES)),
)
def test_any_name_and_password_log_in(name: str, password: str, mechanism: str) -> None:
    known = logins({name: secret_of(mechanism, password)}, mechanism)
    server = known.begin("server")
    client = Scram(mechanism, name, password).begin("client")
    proof = client.answer(server.answer(client.first()))
    assert proof is not None
    assert client.answer(server.answer(proof)) is None
    assert server.done == LoggedIn(name)


def test_a_wrong_password_fails_at_the_last_message() -> None:
    server = logins(USER).begin("server")
    client = Scram(MECHANISM, "user", "pen").begin("client")
    proof = client.answer(server.answer(client.first()))
    assert proof is not None
    with pytest.raises(LoginFailed, match="a wrong user or password"):
        server.answer(proof)
    assert server.done is None


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"y,,n=user,r=x", "no first message"),
        (b"p=tls-unique,,n=user,r=x", "no first message"),
        (b"n,,m=ext,n=user,r=x", "no first message"),
        (b"n,,n=,r=x", "no first message"),
        (b"n,,n=user,r=", "no first message"),
        (b"n,,n=user", "no first message"),
        (b"n,,n=us=er,r=x", "not escaped"),
        (b"n,a=admin,n=user,r=x", "authorization id"),
        (b"n,,n=stranger,r=x", "unknown user"),
        (b"n,,n=user,r=x,tokenauth=true", "unknown user"),
        (b"\xff", "not text"),
        (b"n,,n=" + b"u" * 20_000 + b",r=x", "20009 bytes"),
    ],
)
def test_a_first_message_against_the_rules_fails(message: bytes, reason: str) -> None:
    with pytest.raises(LoginFailed, match=reason):
        logins(USER).begin("server").answer(message)


PROOF = CLIENT_FINAL.partition(b"p=")[2]
NONCE = f"r={CLIENT_NONCE}{SERVER_NONCE}".encode()


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"c=biws,r=" + CLIENT_NONCE.encode() + b",p=" + PROOF, "nonce"),
        (b"c=biws," + NONCE + b"x,p=" + PROOF, "nonce"),
        (b"c=eSws," + NONCE + b",p=" + PROOF, "channel binding"),
        (b"c=biws," + NONCE, "no last message"),
        (b"c=biws," + NONCE + b",p=AAAA", "another size"),
        (b"c=biws," + NONCE + b",p=!", "base64"),
        (b"c=biws," + NONCE + b",p=" + encode_base64(bytes(32)).encode(), "wrong user"),
        (CLIENT_FIRST, "no last message"),
    ],
)
def test_a_last_message_against_the_rules_fails(message: bytes, reason: str) -> None:
    login = challenged(logins(USER))
    with pytest.raises(LoginFailed, match=reason):
        login.answer(message)
    with pytest.raises(LoginFailed, match="after the end"):
        login.answer(CLIENT_FINAL)
    assert login.done is None


def test_a_credential_that_was_removed_meanwhile_proves_nothing() -> None:
    users = dict(USER)
    login = challenged(logins(users))
    del users["user"]
    with pytest.raises(LoginFailed):
        login.answer(CLIENT_FINAL)


def test_an_unknown_user_gets_a_salt_that_stays_where_nodes_share_a_secret() -> None:
    def challenge(shared: bytes, name: str, nonce: str) -> dict[str, str]:
        login = logins(USER, shared=shared).begin(nonce)
        return scram_fields(login.answer(f"n,,n={name},r=x".encode()))

    first = challenge(b"shared", "stranger", "one")
    assert first["s"] == challenge(b"shared", "stranger", "two")["s"]
    assert first["s"] != challenge(b"shared", "other", "one")["s"]
    assert first["s"] != challenge(b"else", "stranger", "one")["s"]
    assert (len(first["s"]), first["i"]) == (len(encode_base64(bytes(SALT_BYTES))), "4096")


def test_an_unknown_user_fails_like_a_wrong_password_where_nodes_share_a_secret() -> None:
    server = logins(USER, shared=b"shared").begin("server")
    client = Scram(MECHANISM, "stranger", "pencil").begin("client")
    proof = client.answer(server.answer(client.first()))
    assert proof is not None
    with pytest.raises(LoginFailed, match="a wrong user or password"):
        server.answer(proof)


@given(st.lists(st.binary(max_size=60), max_size=3))
def test_no_bytes_do_more_than_fail(messages: list[bytes]) -> None:
    login = logins(USER, shared=b"shared").begin("server")
    for message in messages:
        try:
            login.answer(message)
        except LoginFailed:
            pass
    assert login.done is None


def test_no_repr_shows_a_key() -> None:
    key = PENCIL.keys.stored_key
    shown = repr(PENCIL) + repr(PENCIL.keys) + repr(logins(USER))
    assert repr(key) not in shown and key.hex() not in shown
