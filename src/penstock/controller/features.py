"""UpdateFeatures: which versions of the cluster's features are in force."""

from collections import Counter
from typing import Any

from penstock.controller.image import ELIGIBLE_LEADERS, EVERY_BROKER, Image, VersionRange
from penstock.controller.live_facts import LiveFacts
from penstock.controller.records import (
    CONTROLLER_REGISTRATION_SINCE,
    ELIGIBLE_LEADERS_SINCE,
    METADATA_VERSION,
)
from penstock.controller.settings import KRAFT_VERSION, MIN_ISR, ControllerSettings
from penstock.effects import Outcome
from penstock.errors import InvalidRequest, InvalidUpdateVersion, KafkaError
from penstock.wire.messages import k57_update_features as k57
from penstock.wire.records.metadata import ConfigRecord, FeatureLevelRecord

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
NOT_SUPPORTED = VersionRange(0, 0)

_ALL_FAILED = "The update failed for all features since the following feature had an error: "

# Versions that changed no record: stepping back over them loses nothing. Kafka's own table.
_METADATA_UNCHANGED = frozenset({2, 4, 9, 10, 12, 16, 18, 19, 20, 21, 22, 24, 25, 26, 27, 28, 29})


class FeatureRequests:
    """Decides about feature levels; holds no state but what it was given."""

    def __init__(
        self, image: Image, settings: ControllerSettings, facts: LiveFacts | None = None
    ) -> None:
        self._image = image
        self._settings = settings
        self._facts = facts or LiveFacts()

    def update(self, request: k57.UpdateFeaturesRequest, version: int) -> Outcome:
        """Update all features of the request, or none."""
        proposed = dict(self._image.features)
        proposed.update({each.feature: each.max_version_level for each in request.feature_updates})
        records: list[Any] = []
        try:
            twice = [
                n for n, c in Counter(u.feature for u in request.feature_updates).items() if c > 1
            ]
            if twice:
                raise InvalidRequest(f"Feature {twice[0]} is named twice in this request.")
            for update in request.feature_updates:
                records += self._update_one(update, version, proposed)
        except KafkaError as error:
            return Outcome(reply=_reply(request, version, error))
        return Outcome(() if request.validate_only else records, _reply(request, version, None))

    def _update_one(
        self, update: k57.FeatureUpdateKey, version: int, proposed: dict[str, int]
    ) -> list[Any]:
        name, level = update.feature, update.max_version_level
        kind = update.upgrade_type
        if version == 0:
            kind = UNSAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
        if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            raise _invalid(name, level, "The controller does not support the given upgrade type.")
        if level < 0:
            raise _invalid(name, level, "A feature version cannot be less than 0.")
        self._check_supported(name, level)
        current = self._image.features.get(name, 0)
        if level < current and kind == UPGRADE:
            raise _invalid(
                name,
                level,
                "Can't downgrade the version of this feature without setting the upgrade type to "
                "either safe or unsafe downgrade.",
            )
        if level > current and kind != UPGRADE:
            raise _invalid(name, level, "Can't downgrade to a newer version.")
        self._check_dependencies(name, level, proposed)
        if level == current:
            return []
        records: list[Any] = [FeatureLevelRecord(name=name, feature_level=level)]
        if name == ELIGIBLE_LEADERS and level:
            records += self.min_isr_records()
        return records

    def min_isr_records(self) -> list[Any]:
        """Return the record that sets min.insync.replicas for all brokers, if none does. Eligible
        leader replicas need one value for all brokers."""
        if MIN_ISR in self._image.config(EVERY_BROKER):
            return []
        return [
            ConfigRecord(
                resource_type=EVERY_BROKER.kind,
                resource_name=EVERY_BROKER.name,
                name=MIN_ISR,
                value=str(self._settings.min_insync_replicas),
            )
        ]

    def _check_supported(self, name: str, level: int) -> None:
        image, node_id = self._image, self._settings.node_id
        ranges = {f"Local controller {node_id}": self._settings.supported_features}
        ranges |= {f"Broker {each.broker_id}": each.features for each in image.brokers.values()}
        if image.metadata_version >= CONTROLLER_REGISTRATION_SINCE:
            ranges |= {
                f"Controller {each.controller_id}": each.features
                for each in image.controllers.values()
                if each.controller_id != node_id
            }
        for holder, features in ranges.items():
            low, high = features.get(name, NOT_SUPPORTED)
            if low <= level <= high:
                continue
            if high == 0:
                raise _invalid(name, level, f"{holder} does not support this feature.")
            raise _invalid(name, level, f"{holder} only supports versions {low}-{high}")
        if name == KRAFT_VERSION:
            raise _invalid(
                name, level, "The quorum's version is fixed when the directory is formatted."
            )
        if name not in self._settings.supported_features:
            raise _invalid(
                name, level, f"Local controller {node_id} does not support this feature."
            )
        self._check_voters(name, level)

    def _check_voters(self, name: str, level: int) -> None:
        if self._image.metadata_version < CONTROLLER_REGISTRATION_SINCE:
            return
        for voter_id in self._facts.voter_ids():
            if voter_id != self._settings.node_id and voter_id not in self._image.controllers:
                raise _invalid(
                    name,
                    level,
                    f"controller {voter_id} has not registered, and may not support this feature",
                )

    def _check_dependencies(self, name: str, level: int, proposed: dict[str, int]) -> None:
        metadata_version = proposed.get(METADATA_VERSION, self._image.metadata_version)
        if name == ELIGIBLE_LEADERS and level and metadata_version < ELIGIBLE_LEADERS_SINCE:
            raise _invalid(
                name, level, f"It needs {METADATA_VERSION} {ELIGIBLE_LEADERS_SINCE} or higher."
            )
        if name != METADATA_VERSION:
            return
        if proposed.get(ELIGIBLE_LEADERS, 0) and level < ELIGIBLE_LEADERS_SINCE:
            raise _invalid(name, level, f"{ELIGIBLE_LEADERS} is in use; set it to 0 first.")
        lost = [
            step
            for step in range(level + 1, self._image.metadata_version + 1)
            if step not in _METADATA_UNCHANGED
        ]
        if lost:
            raise InvalidUpdateVersion(
                f"{_ALL_FAILED}Invalid {name} {level}. Refusing to perform the requested downgrade "
                "because it might delete metadata information."
            )


def _invalid(name: str, level: int, reason: str) -> InvalidUpdateVersion:
    return InvalidUpdateVersion(
        f"{_ALL_FAILED}Invalid update version {level} for feature {name}. {reason}"
    )


def _reply(
    request: k57.UpdateFeaturesRequest, version: int, error: KafkaError | None
) -> k57.UpdateFeaturesResponse:
    reply = k57.UpdateFeaturesResponse(error_message=None)
    if error is not None:
        reply.error_code, reply.error_message = error.code, error.message
    elif version <= 1:
        reply.results = [
            k57.UpdatableFeatureResult(feature=update.feature, error_message=None)
            for update in request.feature_updates
        ]
    return reply
