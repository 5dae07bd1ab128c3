"""Quotas of clients: bytes and requests per user, client id and address."""

from collections.abc import Mapping, Sequence

from penstock.client.admin.access_values import QuotaEntity, QuotaFilter
from penstock.client.cluster.limits import CallLimit, limited
from penstock.client.cluster.routing import Routes
from penstock.client.transport.connection import Connection
from penstock.errors import KafkaError, from_code
from penstock.wire.messages import k48_describe_client_quotas, k49_alter_client_quotas


class Quotas:
    """Client quotas; any broker answers, the controller changes them: `Admin.quotas`."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    @property
    def limit(self) -> CallLimit:
        return self._routes.limit

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
                    wire.EntityData(entity_type=part, entity_name=name)
                    for part, name in entity.parts
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
        QuotaEntity.of({part.entity_type: part.entity_name for part in each.entity}): from_code(
            each.error_code, each.error_message
        )
        if each.error_code
        else None
        for each in answer.entries
    }
