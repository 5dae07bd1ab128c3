"""The users of `kafka-storage format --add-scram`: credentials that a new cluster begins with."""

from collections.abc import Callable, Sequence

from penstock.broker.metadata.storage_format import StorageError
from penstock.controller.scram import ITERATIONS_STORED_MAX, scram_record
from penstock.credentials.scram import (
    ITERATIONS_MIN,
    MECHANISM_NUMBERS,
    BadScramMessage,
    decode_base64,
    salted_password,
)
from penstock.wire.records.metadata import UserScramCredentialRecord


class BadInitialUser(StorageError):
    """The text is no credential; the message never shows a secret."""


def parse_initial_users(
    texts: Sequence[str], new_salt: Callable[[], bytes]
) -> tuple[UserScramCredentialRecord, ...]:
    """Return the records of texts such as `SCRAM-SHA-256=[name=alice,password=secret]`."""
    return tuple(_user(text.strip(), new_salt) for text in texts)


def _user(text: str, new_salt: Callable[[], bytes]) -> UserScramCredentialRecord:
    mechanism, equals, options = text.partition("=")
    if not equals:
        raise BadInitialUser("Failed to find equals sign in SCRAM argument.")
    if mechanism not in MECHANISM_NUMBERS:
        raise BadInitialUser(f"The add-scram mechanism {mechanism} is not supported.")
    if not options.startswith("["):
        raise BadInitialUser("Expected configuration string to start with [")
    if not options.endswith("]"):
        raise BadInitialUser("Expected configuration string to end with ]")
    parts = dict(map(_part, options[1:-1].split(",")))
    name = parts.pop("name", None)
    if not name:
        raise BadInitialUser("You must supply 'name' to add-scram")
    salt = _decoded("salt", parts.pop("salt")) if "salt" in parts else None
    iterations = _iterations(mechanism, parts.pop("iterations", str(ITERATIONS_MIN)))
    password, salted_text = parts.pop("password", None), parts.pop("saltedpassword", None)
    if parts:
        raise BadInitialUser(f"Unknown SCRAM configurations: {', '.join(sorted(parts))}")
    if password is not None:
        salt = salt or new_salt()
        salted = salted_password(mechanism, password, salt, iterations)
    elif salted_text is None:
        raise BadInitialUser("You must supply one of 'password' or 'saltedpassword' to add-scram")
    elif salt is None:
        raise BadInitialUser("You must supply 'salt' with 'saltedpassword' to add-scram")
    else:
        salted = _decoded("saltedPassword", salted_text)
    return scram_record(name, MECHANISM_NUMBERS[mechanism], salt, iterations, salted)


def _part(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise BadInitialUser("No equals sign found in SCRAM component.")
    if len(value) >= 2 and value.startswith('"') and value.endswith('"'):
        value = value[1:-1]
    return name, value


def _decoded(name: str, text: str) -> bytes:
    try:
        return decode_base64(text)
    except BadScramMessage:
        raise BadInitialUser(f"Failed to decode given {name}: it is not base64") from None


def _iterations(mechanism: str, text: str) -> int:
    try:
        iterations = int(text)
    except ValueError:
        raise BadInitialUser(f"Failed to parse iterations count: {text}") from None
    if iterations < ITERATIONS_MIN:
        raise BadInitialUser(
            f"The 'iterations' value must be >= {ITERATIONS_MIN} for add-scram using {mechanism}"
        )
    if iterations > ITERATIONS_STORED_MAX:
        raise BadInitialUser(
            f"The 'iterations' value must be <= {ITERATIONS_STORED_MAX} for add-scram using "
            f"{mechanism}"
        )
    return iterations
