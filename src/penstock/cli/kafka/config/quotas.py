"""kafka-configs for users, clients and addresses: quotas and SCRAM credentials."""

import re
from collections.abc import Mapping, Sequence

from penstock.cli.connection.results import value_of
from penstock.cli.kafka.config.entities import CLIENTS, IPS, USERS, Entities
from penstock.cli.kafka.framework.runner import CommandRejected
from penstock.client.admin.access_values import (
    QuotaEntity,
    QuotaFilter,
    QuotaMatch,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
)
from penstock.client.admin.blocking import Admin
from penstock.errors import KafkaError, ResourceNotFound, UnsupportedVersion

PARTS = {USERS: "user", CLIENTS: "client-id", IPS: "ip"}
PART_NAMES = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
QUOTAS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
IP_QUOTAS = ("connection_creation_rate",)
SCRAM = {each.text: each for each in ScramMechanism if each is not ScramMechanism.UNKNOWN}
ITERATIONS_DEFAULT = 4096
_CREDENTIAL = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)")


def describe_quotas(admin: Admin, entities: Entities) -> None:
    try:
        found = _found(admin, entities)
    except UnsupportedVersion:
        if entities.types != (USERS,):
            raise
        found = {}  # the cluster has no quotas, but it has users
    for entity, quotas in found.items():
        parts = dict(entity.parts)
        who = ", ".join(
            f"{PART_NAMES[part]} '{parts[part]}'"
            if parts[part] is not None
            else f"the default {PART_NAMES[part]}"
            for part in PARTS.values()
            if part in parts
        )
        shown = ", ".join(f"{key}={value}" for key, value in quotas.items())
        print(f"Quota configs for {who} are {shown}")
    if CLIENTS not in entities.types and IPS not in entities.types and "" not in entities.names:
        _describe_secrets(admin, entities)


def _describe_secrets(admin: Admin, entities: Entities) -> None:
    for user, found in admin.scram.describe(list(entities.names) or None).items():
        if isinstance(found, ResourceNotFound):
            continue  # a user without credentials is no error
        if isinstance(found, KafkaError):
            print(
                f"Error retrieving SCRAM credential configs for user-principal '{user}': "
                f"{found.kafka_name()}: {found.message}"
            )
            continue
        shown = ", ".join(f"{each.mechanism.text}=iterations={each.iterations}" for each in found)
        print(f"SCRAM credential configs for user-principal '{user}' are {shown}")


def _found(admin: Admin, entities: Entities) -> dict[QuotaEntity, dict[str, float]]:
    wanted = []
    for at, kind in enumerate(entities.types):
        name = entities.names[at] if at < len(entities.names) else None
        if name is None:
            wanted.append(QuotaFilter(PARTS[kind]))
        elif not name:
            wanted.append(QuotaFilter(PARTS[kind], QuotaMatch.DEFAULT))
        else:
            wanted.append(QuotaFilter(PARTS[kind], QuotaMatch.EXACT, name))
    return admin.quotas.describe(wanted, strict=True)


def alter_quotas(
    admin: Admin, entities: Entities, added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    _check_keys(entities, added, deleted)
    secrets = [key for key in (*added, *deleted) if key in SCRAM]
    if secrets:
        _alter_secrets(admin, entities.names[0], added, deleted)
        return
    old = next(iter(_found(admin, entities).values()), {})
    missing = [key for key in deleted if key not in old]
    if missing:
        raise CommandRejected(f"Invalid config(s): {','.join(missing)}")
    changes: dict[str, float | None] = dict.fromkeys(deleted)
    for key, text in added.items():
        try:
            changes[key] = float(text)
        except ValueError:
            raise CommandRejected(
                f"Cannot parse quota configuration value for {key}: {text}"
            ) from None
    entity = QuotaEntity.of(
        {
            PARTS[kind]: name or None
            for kind, name in zip(entities.types, entities.names, strict=True)
        }
    )
    value_of(admin.quotas.alter({entity: changes})[entity])


def _check_keys(entities: Entities, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    only_user = entities.types == (USERS,)
    known = IP_QUOTAS if entities.type == IPS else QUOTAS
    unknown = [
        key for key in (*added, *deleted) if key not in known and not (only_user and key in SCRAM)
    ]
    if unknown:
        what = "connection quota" if entities.type == IPS else "quota"
        what += " and SCRAM credential" if only_user else ""
        raise CommandRejected(
            f"Only {what} configs can be added or deleted for '{entities.type}' using "
            f"--bootstrap-server. Unexpected config names: {','.join(unknown)}"
        )
    if only_user and any(key in SCRAM for key in (*added, *deleted)):
        if "" in entities.names:
            raise CommandRejected(
                "The use of --entity-default or --user-defaults is not allowed with User SCRAM "
                "Credentials using --bootstrap-server."
            )
        if any(key in QUOTAS for key in (*added, *deleted)):
            raise CommandRejected(
                "Cannot alter both quota and SCRAM credential configs simultaneously for "
                f"'{USERS}' using --bootstrap-server."
            )


def _alter_secrets(
    admin: Admin, user: str, added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    changes: list[ScramUpsertion | ScramDeletion] = [
        ScramDeletion(user, SCRAM[key]) for key in deleted
    ]
    for key, text in added.items():
        found = _CREDENTIAL.fullmatch(text)
        if found is None:
            raise CommandRejected(f"Invalid credential property {key}={text}")
        said, password = found.groups()
        iterations = int(said) if said and said != "-1" else ITERATIONS_DEFAULT
        if iterations < ITERATIONS_DEFAULT:
            raise CommandRejected(
                f"Iterations {iterations} is less than the minimum {ITERATIONS_DEFAULT} required "
                f"for {key}"
            )
        changes.append(ScramUpsertion(user, SCRAM[key], password, iterations))
    value_of(admin.scram.alter(changes)[user])
