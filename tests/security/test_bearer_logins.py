"""OAUTHBEARER on the server: messages, signatures, claims, keys."""

import base64
import hmac
import json
from typing import Any

import pytest

from penstock.security.login.bearer import INVALID_TOKEN, BearerLogins, VerifiedToken
from penstock.security.login.login import LoggedIn, LoginFailed
from penstock.security.login.web_tokens import (
    BadKeySet,
    TokenRules,
    UnknownKey,
    parse_key_set,
    verify_web_token,
)
from token_issuer import AUDIENCE, ISSUER, NOW_S, Issuer, key_set, message_of

RULES = TokenRules(ISSUER, (AUDIENCE, "other"), skew_ms=30_000)
FIRST = Issuer()
KEYS = parse_key_set(key_set(FIRST))


def verified(token: str, now_s: int = NOW_S) -> VerifiedToken:
    return verify_web_token(token, KEYS, RULES, now_s * 1000)


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


# -- messages


def test_a_token_logs_in_until_it_ends() -> None:
    login = BearerLogins(verified).begin("")
    assert login.answer(message_of(FIRST.token())) == b""
    assert login.done == LoggedIn("alice", ends_wall_ms=(NOW_S + 60) * 1000)


def test_a_bad_token_is_answered_with_its_status_and_fails_after_the_reply() -> None:
    login = BearerLogins(verified).begin("")
    assert login.answer(message_of(FIRST.token(sub=None))) == INVALID_TOKEN
    assert login.done is None
    with pytest.raises(LoginFailed, match="without the claim sub"):
        login.answer(b"\x01")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01traceId=1\x01\x01",
        b"y,,\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01",
        b"n,,\x01auth=Bearer " + b"a" * 200_000 + b"\x01\x01",
        b"\xff",
    ],
)
def test_a_message_against_the_rules_fails(message: bytes) -> None:
    with pytest.raises(LoginFailed):
        BearerLogins(verified).begin("").answer(message)


def test_extensions_are_ignored_and_another_authorization_id_is_not() -> None:
    token = FIRST.token()
    login = BearerLogins(verified).begin("")
    login.answer(f"n,a=alice,\x01auth=Bearer {token}\x01traceId=1\x01\x01".encode())
    assert login.done is not None
    with pytest.raises(LoginFailed, match="authorization id"):
        BearerLogins(verified).begin("").answer(f"n,a=bob,\x01auth=Bearer {token}\x01\x01".encode())


# -- tokens


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"iss": "https://other.example"}, "InvalidIssuerError"),
        ({"iss": None}, "MissingRequiredClaimError"),
        ({"aud": "elsewhere"}, "InvalidAudienceError"),
        ({"aud": None}, "MissingRequiredClaimError"),
        ({"exp": None}, "MissingRequiredClaimError"),
        ({"exp": NOW_S - 31}, "expired"),
        ({"exp": 1e300}, "impossible exp"),
        ({"exp": True}, "impossible exp"),
        ({"nbf": NOW_S + 31}, r"future \(nbf\)"),
        ({"iat": NOW_S + 31}, r"future \(iat\)"),
        ({"sub": None}, "without the claim sub"),
        ({"sub": " "}, "without the claim sub"),
    ],
)
def test_a_token_without_the_right_claims_proves_nothing(
    claims: dict[str, Any], reason: str
) -> None:
    with pytest.raises(LoginFailed, match=reason):
        verified(FIRST.token(**claims))


@pytest.mark.parametrize(
    "claims", [{"exp": NOW_S - 29}, {"nbf": NOW_S + 29}, {"aud": ["x", "other"]}]
)
def test_clocks_may_differ_and_one_audience_is_enough(claims: dict[str, Any]) -> None:
    assert verified(FIRST.token(**claims)).name == "alice"


def test_another_claim_may_name_the_principal() -> None:
    rules = RULES._replace(subject_claim="client_id")
    token = FIRST.token(client_id="billing")
    assert verify_web_token(token, KEYS, rules, NOW_S * 1000).name == "billing"


def test_a_token_of_another_issuer_with_the_same_key_id_proves_nothing() -> None:
    with pytest.raises(LoginFailed, match="InvalidSignatureError"):
        verified(Issuer().token())


def test_a_token_that_is_not_signed_proves_nothing() -> None:
    head, body, _ = FIRST.token().split(".")
    for forged in (
        f"{part({'alg': 'none', 'kid': 'first'})}.{body}.",
        f"{head}.{body}.",
        f"{head}.{part({'sub': 'admin'})}.AAAA",
    ):
        with pytest.raises(LoginFailed):
            verified(forged)


def test_a_public_key_is_no_secret_of_a_signature() -> None:
    claims = {"sub": "admin", "iss": ISSUER, "aud": AUDIENCE, "exp": NOW_S + 60}
    signed = f"{part({'alg': 'HS256', 'kid': 'first'})}.{part(claims)}"
    for public in (json.dumps(FIRST.entry()).encode(), FIRST.public_pem()):
        signature = hmac.digest(public, signed.encode(), "sha256")
        forged = f"{signed}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
        with pytest.raises(LoginFailed, match="InvalidAlgorithmError"):
            verified(forged)


def test_a_token_by_an_unknown_key_is_told_apart() -> None:
    with pytest.raises(UnknownKey):
        verified(Issuer("second").token())


@pytest.mark.parametrize("token", ["", "a", "a.b", "a.b.c", "." * 50, "e30.e30.e30"])
def test_what_is_no_token_proves_nothing(token: str) -> None:
    with pytest.raises(LoginFailed):
        verified(token)


# -- keys


def test_keys_of_rsa_are_known() -> None:
    issuer = Issuer("rsa", rsa_bits=2048)
    keys = parse_key_set(key_set(issuer, FIRST))
    for each in (issuer, FIRST):
        assert verify_web_token(each.token(), keys, RULES, NOW_S * 1000).name == "alice"


def test_keys_that_cannot_be_used_are_passed_over() -> None:
    entries = [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "symmetric", "alg": "HS256"},
        {**FIRST.entry(), "kid": "encryption", "use": "enc"},
        {**FIRST.entry(), "kid": "other", "alg": "HS256"},
        {"kty": "EC", "crv": "P-256", "kid": "broken", "x": "!", "y": "!"},
        {"kty": "unknown", "kid": "new"},
        "no object",
        FIRST.entry(),
    ]
    assert list(parse_key_set(json.dumps({"keys": entries}).encode())) == ["first"]


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b'{"keys": 1}', b'{"keys": []}', b"<html>", b'{"keys": [' + b"[" * 9_000],
)
def test_a_document_without_keys_is_told_so(data: bytes) -> None:
    with pytest.raises(BadKeySet):
        parse_key_set(data)


def test_a_short_key_of_rsa_is_no_key() -> None:
    with pytest.raises(BadKeySet):
        parse_key_set(key_set(Issuer("short", rsa_bits=1024)))
