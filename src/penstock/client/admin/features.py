"""API versions of brokers, and the feature levels of the cluster."""

from collections.abc import Mapping

from penstock.client.admin.cluster_values import (
    BrokerApis,
    FeatureChange,
    FeatureLevels,
    LevelRange,
)
from penstock.client.admin.part import AdminPart
from penstock.client.cluster.limits import limited
from penstock.client.cluster.routing import Routes
from penstock.client.transport.connection import CLIENT_SOFTWARE_NAME, CannotReach, Connection
from penstock.client.values import Broker
from penstock.errors import KafkaError, from_code
from penstock.release import VERSION
from penstock.wire.messages import k18_api_versions, k57_update_features


class Features(AdminPart):
    """The feature levels of a cluster: `Admin.features`."""

    @limited
    def describe(self, broker: int | None = None) -> FeatureLevels:
        """Return the levels as one broker knows them; without a number, any broker."""
        nodes = self._routes.nodes
        found = ask_versions(nodes.any() if broker is None else nodes.node(broker))
        if isinstance(found, KafkaError):
            raise found
        return found.features

    @limited
    def update(
        self, changes: Mapping[str, FeatureChange], *, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        """Change feature levels: all or none. From version 2 on, one failure fails the others
        too."""
        return self._routes.of_controller(
            list(changes),
            lambda connection: _ask_update(connection, changes, validate_only, self._timeout_ms),
        )


def ask_versions_of_all(routes: Routes) -> dict[Broker, BrokerApis | KafkaError | CannotReach]:
    """Return the API versions of each broker, or the reason why it did not answer."""
    routes.nodes.refresh()
    found: dict[Broker, BrokerApis | KafkaError | CannotReach] = {}
    for broker in routes.nodes.brokers:
        try:
            found[broker] = ask_versions(routes.nodes.node(broker.node_id))
        except (KafkaError, CannotReach) as problem:
            found[broker] = problem
    return found


def ask_versions(connection: Connection) -> BrokerApis | KafkaError:
    wire = k18_api_versions
    request = wire.ApiVersionsRequest(
        client_software_name=CLIENT_SOFTWARE_NAME, client_software_version=VERSION
    )
    answer = connection.request(request, wire.ApiVersionsResponse)
    if answer.error_code:
        return from_code(answer.error_code)
    epoch = answer.finalized_features_epoch
    return BrokerApis(
        {each.api_key: LevelRange(each.min_version, each.max_version) for each in answer.api_keys},
        FeatureLevels(
            {
                each.name: LevelRange(each.min_version_level, each.max_version_level)
                for each in answer.finalized_features
            },
            {
                each.name: LevelRange(each.min_version, each.max_version)
                for each in answer.supported_features
            },
            epoch if epoch >= 0 else None,
        ),
    )


def _ask_update(
    connection: Connection,
    changes: Mapping[str, FeatureChange],
    validate_only: bool,
    timeout_ms: int,
) -> dict[str, KafkaError | None]:
    wire = k57_update_features
    request = wire.UpdateFeaturesRequest(
        timeout_ms=timeout_ms,
        feature_updates=[
            wire.FeatureUpdateKey(
                feature=name,
                max_version_level=change.level,
                allow_downgrade=change.kind > 1,
                upgrade_type=int(change.kind),
            )
            for name, change in changes.items()
        ],
        validate_only=validate_only,
    )
    answer = connection.request(request, wire.UpdateFeaturesResponse)
    if answer.error_code:
        return dict.fromkeys(changes, from_code(answer.error_code, answer.error_message))
    found: dict[str, KafkaError | None] = dict.fromkeys(changes)
    for each in answer.results:
        if each.error_code:
            found[each.feature] = from_code(each.error_code, each.error_message)
    return found
