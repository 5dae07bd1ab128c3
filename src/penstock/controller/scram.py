"""AlterUserScramCredentials: the keys of users who log in by SCRAM.

A client salts and hashes the password; the keys that a server needs are made of that here. One user
is changed once per request, and an invalid change leaves the others alone.
"""

from collections import Counter

from penstock.controller.image import Image
from penstock.controller.records import SCRAM_SINCE
from penstock.credentials.scram import ITERATIONS_MIN, MECHANISM_NUMBERS, scram_keys
from penstock.effects import Outcome
from penstock.errors import (
    DuplicateResource,
    KafkaError,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
)
from penstock.wire.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from penstock.wire.records.metadata import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

ITERATIONS_STORED_MAX = 16_384  # as in Kafka: a client computes them at each login
MECHANISMS = {number: name for name, number in MECHANISM_NUMBERS.items()}

ScramRecord = UserScramCredentialRecord | RemoveUserScramCredentialRecord
ScramChange = ScramCredentialDeletion | ScramCredentialUpsertion


class ScramRequests:
    """Decides about credentials; holds no state but the image."""

    def __init__(self, image: Image) -> None:
        self._image = image

    def alter(self, request: AlterUserScramCredentialsRequest) -> Outcome:
        changes: list[ScramChange] = [*request.deletions, *request.upsertions]
        times = Counter(each.name for each in changes)
        records: list[ScramRecord] = []
        results: dict[str, AlterUserScramCredentialsResult] = {}
        for each in changes:
            if each.name in results:
                continue  # a second change of a user: both were rejected
            rejection: KafkaError | None = None
            try:
                if times[each.name] > 1:
                    raise DuplicateResource(
                        "A user credential cannot be altered twice in the same request"
                    )
                records.append(self._record(each))
            except KafkaError as error:
                rejection = error
            results[each.name] = AlterUserScramCredentialsResult(
                user=each.name,
                error_code=rejection.code if rejection else 0,
                error_message=rejection.message if rejection else None,
            )
        return Outcome(records, AlterUserScramCredentialsResponse(results=[*results.values()]))

    def _record(self, change: ScramChange) -> ScramRecord:
        if self._image.metadata_version < SCRAM_SINCE:
            raise UnsupportedVersion("The current metadata.version does not support SCRAM")
        if not change.name:
            raise UnacceptableCredential("Username must not be empty")
        if change.mechanism not in MECHANISMS:
            raise UnsupportedSaslMechanism("Unknown SCRAM mechanism")
        if isinstance(change, ScramCredentialDeletion):
            if (change.name, change.mechanism) not in self._image.scram:
                raise ResourceNotFound("Attempt to delete a user credential that does not exist")
            return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
        if change.iterations < ITERATIONS_MIN:
            raise UnacceptableCredential("Too few iterations")
        if change.iterations > ITERATIONS_STORED_MAX:
            raise UnacceptableCredential("Too many iterations")
        return scram_record(
            change.name, change.mechanism, change.salt, change.iterations, change.salted_password
        )


def scram_record(
    name: str, mechanism: int, salt: bytes, iterations: int, salted: bytes
) -> UserScramCredentialRecord:
    """Return the record of a credential, whose password is salted and hashed already."""
    keys = scram_keys(MECHANISMS[mechanism], salted)
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism,
        salt=salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=iterations,
    )
