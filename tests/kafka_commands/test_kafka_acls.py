"""kafka-acls where a cluster keeps rules, which is played here."""

import pytest
from kafka_running import Node

from penstock.client.admin.access_values import (
    Acl,
    AclFilter,
    AclOperation,
    AclResourceType,
)
from penstock.client.admin.acls import Acls

READ = Acl(AclResourceType.TOPIC, "t", "User:a", AclOperation.READ)


class Kept:
    """The rules of a cluster, in place of what its admin client would ask."""

    def __init__(self, *acls: Acl) -> None:
        self.acls = list(acls)

    def describe(self, wanted: AclFilter) -> list[Acl]:
        return [each for each in self.acls if each.resource_name == wanted.resource_name]

    def create(self, acls: list[Acl]) -> dict[Acl, None]:
        self.acls += acls
        return dict.fromkeys(acls)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    rules = Kept(READ)
    monkeypatch.setattr(Acls, "describe", lambda _self, wanted: rules.describe(wanted))
    monkeypatch.setattr(Acls, "create", lambda _self, acls: rules.create(acls))
    return rules


def adding(node: Node, *operations: str) -> str:
    words = [word for each in operations for word in ("--operation", each)]
    return node.done("acls", "--add", "--topic", "t", "--allow-principal", "User:a", *words).out


def test_a_rule_that_is_there_is_not_added_again(node: Node, kept: Kept) -> None:
    assert adding(node, "Read") == (
        "Acl (pattern=ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL), "
        "entry=(principal=User:a, host=*, operation=READ, permissionType=ALLOW)) already exists.\n"
    )
    assert kept.acls == [READ]


def test_beside_a_rule_that_is_there_others_are_added(node: Node, kept: Kept) -> None:
    told, *added = adding(node, "Read", "Write").splitlines()
    assert told.endswith("already exists.")
    assert added == [
        "Adding ACLs for resource `ResourcePattern(resourceType=TOPIC, name=t, "
        "patternType=LITERAL)`:",
        "\t(principal=User:a, host=*, operation=WRITE, permissionType=ALLOW) ",
        "",
    ]
    assert [each.operation for each in kept.acls] == [AclOperation.READ, AclOperation.WRITE]
