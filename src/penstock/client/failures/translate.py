"""Translates librdkafka's errors, and answers questions about any error.

A broker's error becomes its class in penstock.errors, an error of librdkafka itself a LocalError,
one class per code. Each text ends with the next step. `is_fatal`, `requires_abort`, `is_retriable`
and `next_step` take any of them.
"""

from typing import TYPE_CHECKING

from penstock.client.failures.kinds import ClientError, sentences
from penstock.client.failures.local import (
    LOCAL_BY_CODE,
    AuthenticationFailure,
    LocalError,
    TlsFailure,
)
from penstock.errors import from_code

if TYPE_CHECKING:  # librdkafka is loaded by those who use it
    from confluent_kafka import KafkaError as RdkafkaError
    from confluent_kafka import KafkaException as RdkafkaException

LOCAL_CODE_MAX = -100
_NEW_CLIENT = "This client cannot be used any more: close it and make a new one"
_ABORT = "Abort the transaction; the next one may succeed"
# In texts of TLS: one side has rejected the other.
_LASTING = ("certificate", "alert")


def from_rdkafka(error: "RdkafkaError | RdkafkaException", *, about: str = "") -> Exception:
    """Return the exception for an error of librdkafka; `about` names the operation."""
    reported: RdkafkaError = error.args[0] if isinstance(error, Exception) else error
    code = reported.code()
    assert code != 0, "an error has a code"
    what = f"{about}: {reported.str()}" if about else reported.str()
    step = None
    if reported.fatal():
        step = _NEW_CLIENT
    elif reported.txn_requires_abort():
        step = _ABORT
    failure: Exception
    if code <= LOCAL_CODE_MAX:
        failure = _local(code, reported.name(), what, step)
    else:
        failure = from_code(code)
        failure.own_step = step
        failure.args = (sentences(what, failure.next_step),)
    _note(failure, reported)
    return failure


def _local(code: int, name: str, what: str, step: str | None) -> LocalError:
    found = LOCAL_BY_CODE.get(code)
    if found is not None:
        return found(what, next_step=step)
    newer = LocalError(what, next_step=step)
    newer.code, newer.name = code, name
    return newer


def _note(failure: Exception, reported: "RdkafkaError") -> None:
    # On the instance: the classes of penstock.errors have no such attributes. librdkafka sets
    # `retriable` for transactional calls only, so the class may know better.
    noted = vars(failure)
    noted["fatal"] = reported.fatal() or bool(getattr(failure, "fatal", False))
    noted["retriable"] = not noted["fatal"] and (reported.retriable() or is_retriable(failure))
    noted["txn_requires_abort"] = reported.txn_requires_abort()


def refusal_about(refusal: "RdkafkaError | ClientError", about: str) -> Exception:
    """Return the failure of an operation whose connections are rejected, with the cause."""
    if isinstance(refusal, ClientError):
        return type(refusal)(f"{about}: {refusal.what}", next_step=refusal.next_step)
    return from_rdkafka(refusal, about=about)


def next_step(error: BaseException) -> str:
    """Return the next step; empty if none is known."""
    return str(getattr(error, "next_step", ""))


def is_retriable(error: BaseException) -> bool:
    """Return whether the same call may succeed later."""
    return bool(getattr(error, "retriable", False))


def is_refusal(error: "RdkafkaError") -> bool:
    """Return whether a connection was rejected for good: a password, a certificate.

    A TLS handshake that only broke off may come from a server that restarts.
    """
    if error.code() != TlsFailure.code:
        return bool(error.code() == AuthenticationFailure.code)
    text = error.str().lower()
    return any(word in text for word in _LASTING)


def is_fatal(error: BaseException) -> bool:
    """Return whether the client is unusable."""
    return bool(getattr(error, "fatal", False))


def requires_abort(error: BaseException) -> bool:
    """Return whether the open transaction has to be aborted."""
    return bool(getattr(error, "txn_requires_abort", False))
