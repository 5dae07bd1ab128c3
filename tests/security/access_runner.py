"""Puts every case of access_cases.py to a server, in every scenario and version.

Of an answer remains what access decides: error codes of authorization, authorized operations, and
which resources are named. Other errors are left out: the requests are about nothing real.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import count, groupby
from typing import Any, Protocol

from access_cases import CASES, AccessCase, Scenario, scenarios
from access_requests import ADMIN, DIRECTORY, Names

from penstock.credentials.acls import Acl, AclOperation, AclPermission, AclResourceType
from penstock.errors import (
    ClusterAuthorizationFailed,
    DelegationTokenAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from penstock.model import CONSUMER_OFFSETS_TOPIC
from penstock.wire.messages import k03_metadata as k03
from penstock.wire.messages import k08_offset_commit as k08
from penstock.wire.messages import k10_find_coordinator as k10
from penstock.wire.messages import k19_create_topics as k19
from penstock.wire.messages import k22_init_producer_id as k22
from penstock.wire.messages import k24_add_partitions_to_txn as k24
from penstock.wire.messages import k29_describe_acls as k29
from penstock.wire.messages import k30_create_acls as k30
from penstock.wire.messages import k31_delete_acls as k31
from penstock.wire.schema import schema_of

TRIES_MAX = 2_000
NOT_ASKED = -0x80000000  # authorized operations
NAMES = ("name", "topic", "topic_name", "group_id", "transactional_id", "key", "resource_name")
LEFT_OUT = ("brokers", "configs", "members", "node_endpoints", "nodes")
PLAIN = (str, bytes, int, tuple)  # elements of lists that are no structures
CODES = frozenset(
    error.code
    for error in (
        ClusterAuthorizationFailed,
        DelegationTokenAuthorizationFailed,
        GroupAuthorizationFailed,
        TopicAuthorizationFailed,
        TransactionalIdAuthorizationFailed,
    )
)
Recorded = dict[str, list[dict[str, Any]]]


class AccessServer(Protocol):
    """A server whose connections belong to callers: the admin, the user, or nobody."""

    def ask(self, caller: str, message: Any, version: int, *, controller: bool = False) -> Any: ...

    def pause(self) -> None:
        """Wait a moment: something has not happened yet."""
        ...


class AccessRun:
    """All cases against one server."""

    def __init__(self, server: AccessServer) -> None:
        self._server = server
        self._numbers = count(1)
        self._names = self._fresh_names()

    def record(self, cases: tuple[AccessCase, ...] = CASES) -> Recorded:
        for key, kind in ((self._names.group, 0), (self._names.transactional_id, 1)):
            self._until_found(key, kind)
        return {case.title: self._grouped(case) for case in cases}

    # -- the resources

    def _admin(self, message: Any, version: int) -> Any:
        return self._server.ask(ADMIN, message, version)

    def _fresh_names(self) -> Names:
        number = next(self._numbers)
        name = f"access{number}-t"
        wanted = k19.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        created = self._admin(k19.CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 7)
        assert created.topics[0].error_code == 0, created
        asked = k03.MetadataRequest(
            topics=[k03.MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
        )
        for _ in range(TRIES_MAX):
            found = self._admin(asked, 12).topics[0]
            if not found.error_code and found.partitions[0].leader_id >= 0:
                return Names(name, found.topic_id, f"access{number}-m")
            self._server.pause()
        raise AssertionError(f"{name} has no leader")

    def _until_found(self, key: str, kind: int) -> None:
        asked = k10.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        for _ in range(TRIES_MAX):
            if not self._admin(asked, 4).coordinators[0].error_code:
                return
            self._server.pause()
        raise AssertionError(f"{key} has no coordinator")

    def _prepare(self, names: Names) -> None:
        """Have a group with offsets, and a transaction that has the topic."""
        offset = k08.OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
        topic = k08.OffsetCommitRequestTopic(name=names.topic, partitions=[offset])
        commit = k08.OffsetCommitRequest(group_id=names.group, topics=[topic])
        self._until_right(commit, 9, lambda answer: answer.topics[0].partitions[0].error_code)
        begin = k22.InitProducerIdRequest(
            transactional_id=names.transactional_id, transaction_timeout_ms=60_000
        )
        producer = self._until_right(begin, 4, lambda answer: answer.error_code)
        added = k24.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=names.transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[k24.AddPartitionsToTxnTopic(name=names.topic, partitions=[0])],
        )
        self._until_right(
            added,
            3,
            lambda answer: (
                answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            ),
        )

    def _until_right(self, message: Any, version: int, code: Any) -> Any:
        for _ in range(TRIES_MAX):
            answer = self._admin(message, version)
            if not code(answer):
                return answer
            self._server.pause()
        raise AssertionError(f"{message} is answered with {code(answer)}")

    # -- ACLs

    def _set_acls(self, acls: list[Acl]) -> None:
        everything = k31.DeleteAclsFilter(
            resource_type_filter=AclResourceType.ANY,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=AclOperation.ANY,
            permission_type=AclPermission.ANY,
        )
        removed = self._admin(k31.DeleteAclsRequest(filters=[everything]), 3)
        assert removed.filter_results[0].error_code == 0, removed
        self._until_stored(0)
        creations = [
            k30.AclCreation(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                resource_pattern_type=each.pattern_type,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in acls
        ]
        created = self._admin(k30.CreateAclsRequest(creations=creations), 3)
        assert not any(each.error_code for each in created.results), created
        self._until_stored(len(acls))

    def _until_stored(self, number: int) -> None:
        every = k29.DescribeAclsRequest(
            resource_type_filter=AclResourceType.ANY,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=AclOperation.ANY,
            permission_type=AclPermission.ANY,
        )
        for controller in (False, True):
            for _ in range(TRIES_MAX):
                found = self._server.ask(ADMIN, every, 3, controller=controller)
                if sum(len(each.acls) for each in found.resources) == number:
                    break
                self._server.pause()
            else:
                raise AssertionError(f"there are not {number} ACLs")

    # -- cases

    def _grouped(self, case: AccessCase) -> list[dict[str, Any]]:
        """Return the answers of a case: each once, with its versions and scenarios."""
        by_answer: dict[str, dict[str, list[str]]] = {}
        self._prepare(self._names)
        for scenario in scenarios(case):
            for versions, answer in _by_range(self._answers(case, scenario)):
                by_answer.setdefault(versions, {}).setdefault(answer, []).append(scenario.title)
        return [
            {"versions": versions, "answer": json.loads(answer), "scenarios": titles}
            for versions, answers in by_answer.items()
            for answer, titles in answers.items()
        ]

    def _answers(self, case: AccessCase, scenario: Scenario) -> Iterator[tuple[int, str]]:
        names = self._names
        if not case.fresh:
            self._set_acls(scenario.bindings(names))
        for version in case.all_versions:
            if case.fresh:
                names = self._fresh_names()
                self._set_acls(scenario.bindings(names))
            answer = self._server.ask(
                scenario.caller, case.request(names, version), version, controller=case.controller
            )
            roles: dict[str | bytes, str] = {
                names.topic: "T", names.missing: "M", names.group: "G", "1": "B",
                names.transactional_id: "X", CONSUMER_OFFSETS_TOPIC: "I",
                names.topic_id: "T", DIRECTORY: "unknown",
            }  # fmt: skip
            yield version, json.dumps(summary(answer, roles), sort_keys=True)


def _by_range(answers: Iterator[tuple[int, str]]) -> Iterator[tuple[str, str]]:
    for answer, same in groupby(answers, key=lambda each: each[1]):
        versions = [version for version, _ in same]
        text = f"{versions[0]}-{versions[-1]}" if len(versions) > 1 else f"{versions[0]}"
        yield text, answer


def summary(value: Any, roles: Mapping[str | bytes, str]) -> dict[str, Any] | None:
    """Return what access decides in a structure of an answer; None for one about other names."""
    found: dict[str, Any] = {}
    for field in schema_of(type(value)).fields:
        inner = getattr(value, field.name)
        if field.name in NAMES and inner:
            if inner not in roles:
                return None
            found[field.name] = roles[inner]
        elif field.name == "topic_id" and any(inner):
            found["topic_id"] = roles.get(inner, "other")
        elif _is_of_access(field.name, inner):
            found[field.name] = inner
        elif isinstance(inner, list) and field.name not in LEFT_OUT:
            parts = [summary(each, roles) for each in inner if not isinstance(each, PLAIN)]
            if kept := [each for each in parts if each]:
                found[field.name] = sorted(kept, key=lambda each: json.dumps(each, sort_keys=True))
    return found


def _is_of_access(name: str, value: Any) -> bool:
    if name.endswith("authorized_operations"):
        return bool(value != NOT_ASKED)
    return name.endswith("error_code") and value in CODES
