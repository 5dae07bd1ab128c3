"""AlterUserScramCredentials, v0: passwords of users who log in by SCRAM, and their removal.

The controller answers. A user is changed once per request, so a request is not cut into pieces: one
of more than 1,000 changes is rejected.
"""

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.broker.sliced_work import Slices
from penstock.errors import KafkaError, PolicyViolation
from penstock.wire.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

CHANGES_PER_REQUEST_MAX = 1_000
REJECTIONS_PER_SLICE = 200


def denied(
    message: AlterUserScramCredentialsRequest, error: KafkaError
) -> AlterUserScramCredentialsResponse:
    """Return the error for each user."""
    names = [each.name for each in message.deletions]
    names += (each.name for each in message.upsertions)
    return AlterUserScramCredentialsResponse(
        results=[_rejected(name, error) for name in dict.fromkeys(names)]
    )


def handle(
    broker: "Broker", request: ClientRequest, message: AlterUserScramCredentialsRequest
) -> Slices[AlterUserScramCredentialsResponse | None]:
    names = [each.name for each in message.deletions]
    names += (each.name for each in message.upsertions)
    if len(names) <= CHANGES_PER_REQUEST_MAX:
        broker.ask_controller(request, message, partial(denied, message))
        return None
    error = PolicyViolation(
        f"One request may change at most {CHANGES_PER_REQUEST_MAX} credentials. "
        "Split it into several requests."
    )
    results: dict[str, AlterUserScramCredentialsResult] = {}
    for count, name in enumerate(names, 1):
        if name not in results:
            results[name] = _rejected(name, error)
        if not count % REJECTIONS_PER_SLICE:
            yield None
    return AlterUserScramCredentialsResponse(results=[*results.values()])


def _rejected(user: str, error: KafkaError) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(
        user=user, error_code=error.code, error_message=error.message
    )
