"""Quotas of clients: bytes and requests per user, client id and address."""

from collections.abc import Mapping, Sequence

from penstock.client.admin.access_values import QuotaEntity, QuotaFilter
from penstock.client.admin.part import AdminPart
from penstock.client.cluster.limits import limited
from penstock.client.transport.connection import Connection
from penstock.errors import KafkaError, error_of, from_code
from penstock.wire.messages import k48_describe_client_quotas, k49_alter_client_quotas
from penstock.wire.structures import EntityData


class Quotas(AdminPart):
    """Client quotas; any broker answers, the controller changes them: `Admin.quotas`."""

    @limited
    def describe(
        self, wanted: Sequence[QuotaFilter] = (), *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Return the entities that have all these parts; with `strict`, only those parts."""
        wire = k48_describe_client_quotas
        request = wire.DescribeClientQuotasRequest(
            components=[
                wire.ComponentData(
                    entity_type=each.part, match_type=int(each.match), match=each.name
                )
                for each in wanted
            ],
            strict=strict,
        )
        answer = self._routes.nodes.any().request(request, wire.DescribeClientQuotasResponse)
        if answer.error_code:
            raise from_code(answer.error_code, answer.error_message)
        return {
            QuotaEntity.of({part.entity_type: part.entity_name for part in each.entity}): {
                value.key: value.value for value in each.values
            }
            for each in answer.entries or ()
        }

    @limited
    def alter(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
    ) -> dict[QuotaEntity, KafkaError | None]:
        """Set keys of entities; None removes a key."""
        return self._routes.of_controller(
            list(changes), lambda connection: _ask_alter(connection, changes, validate_only)
        )


def _ask_alter(
    connection: Connection,
    changes: Mapping[QuotaEntity, Mapping[str, float | None]],
    validate_only: bool,
) -> dict[QuotaEntity, KafkaError | None]:
    wire = k49_alter_client_quotas
    request = wire.AlterClientQuotasRequest(
        entries=[
            wire.RequestEntryData(
                entity=[
                    EntityData(entity_type=part, entity_name=name) for part, name in entity.parts
                ],
                ops=[
                    wire.OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in values.items()
                ],
            )
            for entity, values in changes.items()
        ],
        validate_only=validate_only,
    )
    answer = connection.request(request, wire.AlterClientQuotasResponse)
    return {
        QuotaEntity.of({part.entity_type: part.entity_name for part in each.entity}): error_of(
            each.error_code, each.error_message
        )
        for each in answer.entries
    }
