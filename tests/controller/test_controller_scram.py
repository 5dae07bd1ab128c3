"""AlterUserScramCredentials: stored keys, and what is rejected for one user and not for others."""

import pytest
from controller_bench import Bench

from penstock.controller.delta import Delta
from penstock.controller.image import Image
from penstock.controller.image_difference import difference_of
from penstock.controller.image_records import image_records
from penstock.credentials.scram import salted_password, scram_keys
from penstock.wire.messages import k51_alter_user_scram_credentials as k51

SHA_256, SHA_512 = 1, 2
SALTED = salted_password("SCRAM-SHA-256", "secret", b"salt", 4096)


def upsertion(
    name: str = "alice", mechanism: int = SHA_256, iterations: int = 4096
) -> k51.ScramCredentialUpsertion:
    return k51.ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=SALTED
    )


def deletion(name: str = "alice", mechanism: int = SHA_256) -> k51.ScramCredentialDeletion:
    return k51.ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(
    bench: Bench, *changes: k51.ScramCredentialUpsertion | k51.ScramCredentialDeletion
) -> dict[str, int]:
    request = k51.AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, k51.ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, k51.ScramCredentialUpsertion)],
    )
    return {each.user: each.error_code for each in bench.ask(request).results}


def test_the_keys_of_a_password_are_stored() -> None:
    bench = Bench()
    assert alter(bench, upsertion()) == {"alice": 0}
    record = bench.image.scram["alice", SHA_256]
    assert (record.stored_key, record.server_key) == scram_keys("SCRAM-SHA-256", SALTED)
    assert (record.salt, record.iterations) == (b"salt", 4096)


def test_a_user_may_have_both_mechanisms_and_lose_one() -> None:
    bench = Bench()
    alter(bench, upsertion())
    alter(bench, upsertion(mechanism=SHA_512))
    assert alter(bench, deletion()) == {"alice": 0}
    assert list(bench.image.scram) == [("alice", SHA_512)]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (upsertion(name=""), 93),
        (upsertion(mechanism=0), 33),
        (upsertion(mechanism=3), 33),
        (upsertion(iterations=4095), 93),
        (upsertion(iterations=16_385), 93),
        (deletion(name=""), 93),
        (deletion(mechanism=9), 33),
        (deletion(), 91),
    ],
)
def test_a_change_against_the_rules_is_rejected_and_the_others_are_stored(
    change: k51.ScramCredentialUpsertion | k51.ScramCredentialDeletion, code: int
) -> None:
    bench = Bench()
    assert alter(bench, change, upsertion("bob", iterations=16_384)) == {
        change.name: code,
        "bob": 0,
    }
    assert list(bench.image.scram) == [("bob", SHA_256)]


@pytest.mark.parametrize(
    "changes",
    [
        (upsertion(), upsertion(mechanism=SHA_512)),
        (deletion(), upsertion()),
        (deletion(), deletion(mechanism=SHA_512)),
        (upsertion(), upsertion(), upsertion()),
    ],
)
def test_a_user_is_changed_once_per_request(
    changes: tuple[k51.ScramCredentialUpsertion | k51.ScramCredentialDeletion, ...],
) -> None:
    bench = Bench()
    alter(bench, upsertion())
    before = bench.image.scram["alice", SHA_256]
    assert alter(bench, *changes) == {"alice": 92}
    assert bench.image.scram == {("alice", SHA_256): before}


def test_a_delta_names_the_credentials_that_changed() -> None:
    bench = Bench()
    before = bench.image
    alter(bench, upsertion())
    expected = Delta(scram=(("alice", SHA_256),))
    assert difference_of(before, bench.image) == expected
    assert difference_of(bench.image, before) == expected


def test_a_snapshot_has_the_credentials() -> None:
    bench = Bench()
    alter(bench, upsertion())
    assert bench.image.scram["alice", SHA_256] in list(image_records(bench.image))
    assert not Image().scram
