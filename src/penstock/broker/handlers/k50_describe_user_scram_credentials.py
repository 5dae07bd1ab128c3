"""DescribeUserScramCredentials, v0: mechanisms and iterations of users, never their keys.

Answered from the image of this node. No user, or none named, means all.
"""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.broker.sliced_work import Slices
from penstock.credentials.scram import MECHANISM_NUMBERS
from penstock.errors import DuplicateResource, KafkaError, ResourceNotFound
from penstock.wire.messages.k50_describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from penstock.wire.records.metadata import UserScramCredentialRecord

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

USERS_PER_SLICE = 200


def denied(
    message: DescribeUserScramCredentialsRequest, error: KafkaError
) -> DescribeUserScramCredentialsResponse:
    """Return the error of the whole request, and for each user; like Kafka, without the names."""
    rejection = _rejected("", error.code, error.message)
    return DescribeUserScramCredentialsResponse(
        error_code=error.code,
        error_message=error.message,
        results=[rejection] * len(message.users or ()),
    )


def handle(
    broker: "Broker", _request: ClientRequest, message: DescribeUserScramCredentialsRequest
) -> Slices[DescribeUserScramCredentialsResponse]:
    scram = broker.image.scram
    response = DescribeUserScramCredentialsResponse(error_message=None)
    if not message.users:
        found: dict[str, list[UserScramCredentialRecord]] = {}
        for count, ((name, _), record) in enumerate(scram.items(), 1):
            found.setdefault(name, []).append(record)
            if not count % USERS_PER_SLICE:
                yield None
        for count, (name, records) in enumerate(found.items(), 1):
            response.results.append(_described(name, records))
            if not count % USERS_PER_SLICE:
                yield None
        return response
    times = Counter(each.name for each in message.users)
    for name, count in times.items():
        records = [
            scram[name, number] for number in MECHANISM_NUMBERS.values() if (name, number) in scram
        ]
        if count > 1:
            response.results.append(
                _rejected(
                    name,
                    DuplicateResource.code,
                    "Cannot describe SCRAM credentials for the same user twice in a single "
                    f"request: {name}",
                )
            )
        elif not records:
            response.results.append(
                _rejected(
                    name,
                    ResourceNotFound.code,
                    f"Attempt to describe a user credential that does not exist: {name}",
                )
            )
        else:
            response.results.append(_described(name, records))
    return response


def _described(
    name: str, records: Iterable[UserScramCredentialRecord]
) -> DescribeUserScramCredentialsResult:
    infos = [
        CredentialInfo(mechanism=each.mechanism, iterations=each.iterations) for each in records
    ]
    return DescribeUserScramCredentialsResult(user=name, error_message=None, credential_infos=infos)


def _rejected(name: str, code: int, text: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=text)
