"""ACLs, quotas, SCRAM credentials and tokens: what is asked, and what is made of the answers."""

import hashlib

import pytest
from admin_server import AdminServer

from penstock import errors
from penstock.client.admin.access_values import (
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    DelegationToken,
    PatternType,
    QuotaEntity,
    QuotaFilter,
    QuotaMatch,
    ScramCredential,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
)
from penstock.client.admin.blocking import Admin
from penstock.credentials.principal import Principal
from penstock.wire.messages import k29_describe_acls as k29
from penstock.wire.messages import k30_create_acls as k30
from penstock.wire.messages import k31_delete_acls as k31
from penstock.wire.messages import k38_create_delegation_token as k38
from penstock.wire.messages import k39_renew_delegation_token as k39
from penstock.wire.messages import k40_expire_delegation_token as k40
from penstock.wire.messages import k41_describe_delegation_token as k41
from penstock.wire.messages import k48_describe_client_quotas as k48
from penstock.wire.messages import k49_alter_client_quotas as k49
from penstock.wire.messages import k50_describe_user_scram_credentials as k50
from penstock.wire.messages import k51_alter_user_scram_credentials as k51
from penstock.wire.structures import EntityData, TokenPrincipal

READ, WRITE = AclOperation.READ, AclOperation.WRITE
TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALICE = "User:alice"
MAY_READ = Acl(TOPIC, "orders", ALICE, READ)


def resource(name: str, pattern: PatternType = LITERAL, kind: int = TOPIC) -> object:
    return k29.DescribeAclsResource(
        resource_type=int(kind),
        resource_name=name,
        pattern_type=int(pattern),
        acls=[
            k29.AclDescription(principal=ALICE, host="*", operation=int(READ), permission_type=3)
        ],
    )


def described(*resources: object) -> k29.DescribeAclsResponse:
    return k29.DescribeAclsResponse(error_message=None, resources=list(resources))  # type: ignore[arg-type]


def deleted(request: k31.DeleteAclsRequest) -> k31.DeleteAclsResponse:
    """As if each filter had found exactly what it says."""
    return k31.DeleteAclsResponse(
        filter_results=[
            k31.DeleteAclsFilterResult(
                error_message=None,
                matching_acls=[
                    k31.DeleteAclsMatchingAcl(
                        error_message=None,
                        resource_type=each.resource_type_filter,
                        resource_name=each.resource_name_filter or "orders",
                        pattern_type=each.pattern_type_filter,
                        principal=each.principal_filter or ALICE,
                        host=each.host_filter or "*",
                        operation=each.operation,
                        permission_type=each.permission_type,
                    )
                ],
            )
            for each in request.filters
        ]
    )


# -- ACLs


def test_acls_are_told_in_order_whatever_a_newer_server_adds() -> None:
    answer = described(resource("orders"), resource("a", PREFIXED), resource("x", kind=99))
    with AdminServer({29: lambda _: answer}) as server, Admin(bootstrap=server.bootstrap) as admin:
        found = admin.acls.describe(AclFilter(principal=ALICE))
        [asked] = server.requests(29)
    assert found == [
        Acl(AclResourceType.UNKNOWN, "x", ALICE, READ),
        Acl(TOPIC, "a", ALICE, READ, pattern_type=PREFIXED),
        MAY_READ,
    ]
    assert (asked.principal_filter, asked.resource_name_filter, asked.operation) == (ALICE, None, 1)


def test_each_acl_has_a_result_of_its_own() -> None:
    results = [
        k30.AclCreationResult(error_message=None),
        k30.AclCreationResult(error_code=errors.InvalidRequest.code, error_message="no name"),
    ]
    nameless = Acl(TOPIC, "", ALICE, WRITE, AclPermission.DENY)
    answer = k30.CreateAclsResponse(results=results)
    with AdminServer({30: lambda _: answer}) as server, Admin(bootstrap=server.bootstrap) as admin:
        found = admin.acls.create([MAY_READ, nameless])
        [asked] = server.requests(30)
    assert found[MAY_READ] is None
    assert isinstance(found[nameless], errors.InvalidRequest)
    assert [each.permission_type for each in asked.creations] == [3, 2]


def test_an_acl_without_a_result_has_not_succeeded() -> None:
    answer = k30.CreateAclsResponse()
    with AdminServer({30: lambda _: answer}) as server, Admin(bootstrap=server.bootstrap) as admin:
        assert isinstance(admin.acls.create([MAY_READ])[MAY_READ], errors.UnknownServerError)


def test_a_filter_tells_what_it_has_deleted() -> None:
    wanted = AclFilter(TOPIC, None, ALICE, READ, AclPermission.ALLOW, pattern_type=LITERAL)
    with AdminServer({31: deleted}) as server, Admin(bootstrap=server.bootstrap) as admin:
        assert admin.acls.delete([wanted]) == {wanted: {MAY_READ: None}}


# -- ACLs in a namespace


@pytest.mark.parametrize(
    ("said", "made"),
    [
        (MAY_READ, ("dev.orders", LITERAL)),
        (MAY_READ._replace(pattern_type=PREFIXED), ("dev.orders", PREFIXED)),
        (MAY_READ._replace(resource_name="*"), ("dev.", PREFIXED)),
        (MAY_READ._replace(resource_type=GROUP), ("dev.orders", LITERAL)),
        (MAY_READ._replace(resource_type=CLUSTER, resource_name="kafka-cluster"),
         ("kafka-cluster", LITERAL)),
    ],
)  # fmt: skip
def test_an_acl_is_about_names_of_its_namespace(said: Acl, made: tuple[str, PatternType]) -> None:
    answer = k30.CreateAclsResponse(results=[k30.AclCreationResult(error_message=None)])
    with AdminServer({30: lambda _: answer}) as server:
        with Admin(bootstrap=server.bootstrap, namespace="dev.") as admin:
            assert admin.acls.create([said]) == {said: None}
        [[asked]] = [each.creations for each in server.requests(30)]
    assert (asked.resource_name, asked.resource_pattern_type) == made


def test_acls_of_others_are_hidden() -> None:
    answer = described(
        resource("dev.orders"),
        resource("dev.", PREFIXED),
        resource("staging.orders"),
        resource("*"),
        resource("de", PREFIXED),
        resource("kafka-cluster", kind=CLUSTER),
    )
    with (
        AdminServer({29: lambda _: answer}) as server,
        Admin(bootstrap=server.bootstrap, namespace="dev.") as admin,
    ):
        found = admin.acls.describe()
    assert [(each.resource_name, each.pattern_type) for each in found] == [
        ("*", LITERAL),
        ("orders", LITERAL),
        ("kafka-cluster", LITERAL),
    ]


def test_a_filter_without_a_name_deletes_nothing_of_others() -> None:
    answer = described(resource("dev.orders"), resource("staging.orders"), resource("*"))
    everything = AclFilter()
    with AdminServer({29: lambda _: answer, 31: deleted}) as server:
        with Admin(bootstrap=server.bootstrap, namespace="dev.") as admin:
            found = admin.acls.delete([everything])
        asked = [each for request in server.requests(31) for each in request.filters]
    assert found == {everything: {MAY_READ: None}}
    assert [(each.resource_name_filter, each.pattern_type_filter) for each in asked] == [
        ("dev.orders", LITERAL)
    ]


def test_a_filter_that_finds_nothing_asks_for_nothing() -> None:
    answer = described(resource("staging.orders"))
    with AdminServer({29: lambda _: answer, 31: deleted}) as server:
        with Admin(bootstrap=server.bootstrap, namespace="dev.") as admin:
            assert admin.acls.delete([AclFilter(TOPIC)]) == {AclFilter(TOPIC): {}}
        assert server.requests(31) == []


# -- quotas


def test_quotas_are_asked_for_and_told_by_entity() -> None:
    answer = k48.DescribeClientQuotasResponse(
        error_message=None,
        entries=[
            k48.EntryData(
                entity=[
                    EntityData(entity_type="user", entity_name="alice"),
                    EntityData(entity_type="client-id", entity_name=None),
                ],
                values=[k48.ValueData(key="request_percentage", value=5.0)],
            )
        ],
    )
    wanted = [QuotaFilter("user", QuotaMatch.EXACT, "alice"), QuotaFilter("client-id")]
    with AdminServer({48: lambda _: answer}) as server, Admin(bootstrap=server.bootstrap) as admin:
        found = admin.quotas.describe(wanted, strict=True)
        [asked] = server.requests(48)
    entity = QuotaEntity.of({"user": "alice", "client-id": None})
    assert found == {entity: {"request_percentage": 5.0}}
    components = [(each.entity_type, each.match_type, each.match) for each in asked.components]
    assert components == [("user", 0, "alice"), ("client-id", 2, None)]
    assert asked.strict


def test_a_quota_is_set_or_removed_and_answered_by_entity() -> None:
    def answer(request: k49.AlterClientQuotasRequest) -> k49.AlterClientQuotasResponse:
        return k49.AlterClientQuotasResponse(
            entries=[
                k49.ResponseEntryData(
                    error_code=42 * number,
                    error_message="no",
                    entity=[
                        EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                        for part in reversed(each.entity)
                    ],
                )
                for number, each in enumerate(request.entries)
            ]
        )

    first = QuotaEntity.of({"user": "a", "client-id": "b"})
    second = QuotaEntity.of({"ip": None})
    with AdminServer({49: answer}) as server, Admin(bootstrap=server.bootstrap) as admin:
        found = admin.quotas.alter({first: {"x": 1.5, "y": None}, second: {"z": 2.0}})
        [asked] = server.requests(49)
    assert found[first] is None
    assert isinstance(found[second], errors.InvalidRequest)
    ops = [(op.key, op.value, op.remove) for each in asked.entries for op in each.ops]
    assert ops == [("x", 1.5, False), ("y", 0.0, True), ("z", 2.0, False)]


# -- SCRAM


def test_a_password_is_salted_here() -> None:
    answer = k51.AlterUserScramCredentialsResponse(
        results=[k51.AlterUserScramCredentialsResult(user="alice", error_message=None)]
    )
    changes: list[ScramUpsertion | ScramDeletion] = [
        ScramUpsertion("alice", ScramMechanism.SHA_256, "secret", 4096, b"salt"),
        ScramDeletion("alice", ScramMechanism.SHA_512),
    ]
    with AdminServer({51: lambda _: answer}) as server, Admin(bootstrap=server.bootstrap) as admin:
        assert admin.scram.alter(changes) == {"alice": None}
        [asked] = server.requests(51)
    [upsertion] = asked.upsertions
    salted = hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 4096)
    assert (upsertion.salt, upsertion.salted_password) == (b"salt", salted)
    assert [(each.name, each.mechanism) for each in asked.deletions] == [("alice", 2)]
    assert "secret" not in repr(changes)


def test_salts_are_drawn() -> None:
    answer = k51.AlterUserScramCredentialsResponse()
    change = ScramUpsertion("alice", ScramMechanism.SHA_512, "secret")
    with AdminServer({51: lambda _: answer}) as server, Admin(bootstrap=server.bootstrap) as admin:
        for _ in range(2):
            told = admin.scram.alter([change])["alice"]
            assert isinstance(told, errors.UnknownServerError)  # it was not mentioned
        first, second = (each.upsertions[0].salt for each in server.requests(51))
    assert first != second and len(first) == 24


def test_credentials_are_told_without_secrets() -> None:
    answer = k50.DescribeUserScramCredentialsResponse(
        error_message=None,
        results=[
            k50.DescribeUserScramCredentialsResult(
                user="alice",
                error_message=None,
                credential_infos=[k50.CredentialInfo(mechanism=1, iterations=4096)],
            )
        ],
    )
    with AdminServer({50: lambda _: answer}) as server, Admin(bootstrap=server.bootstrap) as admin:
        found = admin.scram.describe(["alice", "bob"])
        assert admin.scram.describe()["alice"] == found["alice"]
    assert found["alice"] == [ScramCredential(ScramMechanism.SHA_256, 4096)]
    assert isinstance(found["bob"], errors.ResourceNotFound)


def test_mechanisms_are_spelled_as_in_settings() -> None:
    assert ScramMechanism.SHA_256.text == "SCRAM-SHA-256"


# -- tokens


def test_a_token_is_made_renewed_told_and_expired() -> None:
    alice, bob = Principal("alice"), Principal.parse("User:bob")
    made = k38.CreateDelegationTokenResponse(
        principal_type="User", principal_name="alice", token_id="t", hmac=b"h",
        issue_timestamp_ms=1, expiry_timestamp_ms=2, max_timestamp_ms=3,
        token_requester_principal_type="User", token_requester_principal_name="bob",
    )  # fmt: skip
    told = k41.DescribedDelegationToken(
        principal_type="User", principal_name="alice", token_id="t", hmac=b"h",
        issue_timestamp=1, expiry_timestamp=2, max_timestamp=3,
        token_requester_principal_type="User", token_requester_principal_name="bob",
        renewers=[TokenPrincipal(principal_type="User", principal_name="bob")],
    )  # fmt: skip
    answers = {
        38: lambda _: made,
        39: lambda _: k39.RenewDelegationTokenResponse(expiry_timestamp_ms=9),
        40: lambda _: k40.ExpireDelegationTokenResponse(error_code=62),
        41: lambda _: k41.DescribeDelegationTokenResponse(tokens=[told]),
    }
    token = DelegationToken("t", alice, bob, 1, 2, 3, b"h", (bob,))
    with AdminServer(answers) as server, Admin(bootstrap=server.bootstrap) as admin:
        assert admin.tokens.create([bob], owner=alice) == token
        assert admin.tokens.describe([alice]) == [token]
        assert admin.tokens.renew(b"h") == 9
        with pytest.raises(errors.DelegationTokenNotFound):
            admin.tokens.expire(b"h")
    assert "b'h'" not in repr(token)


@pytest.mark.parametrize("text", ["", "alice", ":alice", "User:"])
def test_a_principal_has_a_type_and_a_name(text: str) -> None:
    with pytest.raises(ValueError, match="User:alice"):
        Principal.parse(text)
