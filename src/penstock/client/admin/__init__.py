"""Administration: every admin API, typed, one result or error per item.

blocking.py     Admin; aio.py: the same for asyncio, on one thread (aio_calls.py)
options.py      what an Admin was given; connection.py: its connections, within limits
namespaced.py   a namespace between them and the wire

A file per subject has its requests: topic_changes.py, topic_pages.py, configs.py, elections.py,
described_cluster.py; and as parts of Admin (`admin.groups`) groups.py with group_offsets.py and
group_leaving.py, transactions.py, reassignments.py, log_dirs.py, quorum.py, features.py, acls.py,
quotas.py, scram_credentials.py, delegation_tokens.py. aio_groups.py, aio_cluster.py and
aio_access.py are those parts, awaited.

What they take and tell: coordinator_values.py (groups, transactions), cluster_values.py,
access_values.py; topics, configurations and offsets are in client/values.py. Nothing is imported
here: most programs use few of these.
"""
