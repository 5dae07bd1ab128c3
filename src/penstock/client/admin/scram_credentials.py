"""SCRAM credentials of users: list them without their secrets, and change them."""

import secrets
from collections.abc import Sequence

from penstock.client.admin.access_values import (
    ScramCredential,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
)
from penstock.client.admin.part import AdminPart
from penstock.client.cluster.limits import limited
from penstock.client.transport.connection import Connection
from penstock.credentials.scram import SALT_BYTES, salted_password
from penstock.errors import KafkaError, ResourceNotFound, error_of, from_code
from penstock.wire.messages import (
    k50_describe_user_scram_credentials,
    k51_alter_user_scram_credentials,
)


class ScramCredentials(AdminPart):
    """SCRAM credentials of users: `Admin.scram`."""

    @limited
    def describe(
        self, users: Sequence[str] | None = None
    ) -> dict[str, list[ScramCredential] | KafkaError]:
        """Return the credentials of these users, or of all; ResourceNotFound for a user without
        any."""
        wire = k50_describe_user_scram_credentials
        request = wire.DescribeUserScramCredentialsRequest(
            users=None if users is None else [wire.UserName(name=each) for each in users]
        )
        connection = self._routes.nodes.any()
        answer = connection.request(request, wire.DescribeUserScramCredentialsResponse)
        if answer.error_code:
            raise from_code(answer.error_code, answer.error_message)
        found: dict[str, list[ScramCredential] | KafkaError] = {
            each.user: error_of(each.error_code, each.error_message)
            or [
                ScramCredential(_mechanism(told.mechanism), told.iterations)
                for told in each.credential_infos
            ]
            for each in answer.results
        }
        missing = ResourceNotFound("the server did not mention it")
        return found if users is None else {each: found.get(each, missing) for each in users}

    @limited
    def alter(
        self, changes: Sequence[ScramUpsertion | ScramDeletion]
    ) -> dict[str, KafkaError | None]:
        """Change credentials. All changes of one user succeed or fail together."""
        wire = k51_alter_user_scram_credentials
        request = wire.AlterUserScramCredentialsRequest(
            deletions=[
                wire.ScramCredentialDeletion(name=each.user, mechanism=int(each.mechanism))
                for each in changes
                if isinstance(each, ScramDeletion)
            ],
            upsertions=[_salted(each) for each in changes if isinstance(each, ScramUpsertion)],
        )

        def ask(connection: Connection) -> dict[str, KafkaError | None]:
            answer = connection.request(request, wire.AlterUserScramCredentialsResponse)
            return {
                each.user: error_of(each.error_code, each.error_message) for each in answer.results
            }

        return self._routes.of_controller(list(dict.fromkeys(each.user for each in changes)), ask)


def _salted(change: ScramUpsertion) -> k51_alter_user_scram_credentials.ScramCredentialUpsertion:
    if change.mechanism is ScramMechanism.UNKNOWN:
        raise ValueError("a SCRAM credential needs its mechanism: SHA_256 or SHA_512")
    salt = secrets.token_bytes(SALT_BYTES) if change.salt is None else change.salt
    return k51_alter_user_scram_credentials.ScramCredentialUpsertion(
        name=change.user,
        mechanism=int(change.mechanism),
        iterations=change.iterations,
        salt=salt,
        salted_password=salted_password(
            change.mechanism.text, change.password, salt, change.iterations
        ),
    )


def _mechanism(number: int) -> ScramMechanism:
    known = number in ScramMechanism.__members__.values()
    return ScramMechanism(number) if known else ScramMechanism.UNKNOWN
