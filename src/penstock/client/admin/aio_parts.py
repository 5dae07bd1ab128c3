"""Parts of Admin for asyncio: the calls of the blocking parts, awaited.

Generated from the blocking parts by tools/faces.py; `make faces` writes this file again.
"""

from penstock.client.admin import (
    acls,
    delegation_tokens,
    features,
    groups,
    log_dirs,
    quorum,
    quotas,
    reassignments,
    scram_credentials,
    transactions,
)
from penstock.client.admin.aio_calls import AioPart, awaited


class Groups(AioPart[groups.Groups]):
    """`Admin.groups` for asyncio: groups.Groups, awaited."""

    list_all = awaited(groups.Groups.list_all)
    describe = awaited(groups.Groups.describe)
    offsets = awaited(groups.Groups.offsets)
    offsets_of = awaited(groups.Groups.offsets_of)
    commit = awaited(groups.Groups.commit)
    delete = awaited(groups.Groups.delete)
    delete_offsets = awaited(groups.Groups.delete_offsets)
    remove_members = awaited(groups.Groups.remove_members)


class Transactions(AioPart[transactions.Transactions]):
    """`Admin.transactions` for asyncio: transactions.Transactions, awaited."""

    list_all = awaited(transactions.Transactions.list_all)
    describe = awaited(transactions.Transactions.describe)
    producers = awaited(transactions.Transactions.producers)
    abort = awaited(transactions.Transactions.abort)
    fence = awaited(transactions.Transactions.fence)


class Reassignments(AioPart[reassignments.Reassignments]):
    """`Admin.reassignments` for asyncio: reassignments.Reassignments, awaited."""

    list_all = awaited(reassignments.Reassignments.list_all)
    alter = awaited(reassignments.Reassignments.alter)


class LogDirs(AioPart[log_dirs.LogDirs]):
    """`Admin.log_dirs` for asyncio: log_dirs.LogDirs, awaited."""

    describe = awaited(log_dirs.LogDirs.describe)
    alter = awaited(log_dirs.LogDirs.alter)


class MetadataQuorum(AioPart[quorum.MetadataQuorum]):
    """`Admin.quorum` for asyncio: quorum.MetadataQuorum, awaited."""

    describe = awaited(quorum.MetadataQuorum.describe)
    add_voter = awaited(quorum.MetadataQuorum.add_voter)
    remove_voter = awaited(quorum.MetadataQuorum.remove_voter)


class Features(AioPart[features.Features]):
    """`Admin.features` for asyncio: features.Features, awaited."""

    describe = awaited(features.Features.describe)
    update = awaited(features.Features.update)


class Acls(AioPart[acls.Acls]):
    """`Admin.acls` for asyncio: acls.Acls, awaited."""

    describe = awaited(acls.Acls.describe)
    create = awaited(acls.Acls.create)
    delete = awaited(acls.Acls.delete)


class Quotas(AioPart[quotas.Quotas]):
    """`Admin.quotas` for asyncio: quotas.Quotas, awaited."""

    describe = awaited(quotas.Quotas.describe)
    alter = awaited(quotas.Quotas.alter)


class ScramCredentials(AioPart[scram_credentials.ScramCredentials]):
    """`Admin.scram` for asyncio: scram_credentials.ScramCredentials, awaited."""

    describe = awaited(scram_credentials.ScramCredentials.describe)
    alter = awaited(scram_credentials.ScramCredentials.alter)


class DelegationTokens(AioPart[delegation_tokens.DelegationTokens]):
    """`Admin.tokens` for asyncio: delegation_tokens.DelegationTokens, awaited."""

    create = awaited(delegation_tokens.DelegationTokens.create)
    renew = awaited(delegation_tokens.DelegationTokens.renew)
    expire = awaited(delegation_tokens.DelegationTokens.expire)
    describe = awaited(delegation_tokens.DelegationTokens.describe)
