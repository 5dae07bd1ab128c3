"""The names of a sink: its id, its driver's transactional id and those of its workers.

A sink's id is part of every name that belongs to it, and no name belongs to two sinks: the part
before `.<16 hexadecimal digits>.<number>` or `.driver` is the whole id, dots included.
"""

import re
from hashlib import sha256

# Kafka stores the length of a transactional id in 16 bits; readable names are shorter.
SINK_ID_LENGTH_MAX = 200
WORKER_TOKEN_BYTES = 8
DRIVER_SUFFIX = ".driver"
_WORKER_SUFFIX = re.compile(r"\.[0-9a-f]{16}\.[0-9]+")
_READABLE = re.compile(r"[^A-Za-z0-9_-]+")
# The length that a default id keeps of the checkpoint's and the topic's name.
NAME_LENGTH_MAX = 60
HASH_DIGITS = 12


class NoSinkId(ValueError):
    """A sink without a name cannot be found again after a crash."""


class WrongSinkId(ValueError):
    """The name cannot be used."""


def sink_id_of(option: str | None, checkpoint_location: str | None, topic: str | None) -> str:
    """Return the id of a streaming sink: the option, else one from checkpoint location and
    topic."""
    if option is not None:
        return checked(option)
    if not checkpoint_location:
        raise NoSinkId(
            "the exactly-once sink needs a name under which it finds its transactions again after "
            "a restart: set the option sink.id (a name of its own for each write), or "
            "checkpointLocation as an option of the write (one that is set for the whole Spark "
            "application does not reach the sink)"
        )
    place = checkpoint_location.rstrip("/")
    full = sha256(f"{place}\n{topic or ''}".encode()).hexdigest()[:HASH_DIGITS]
    name = "-".join(part for part in (place.rpartition("/")[2], topic) if part)
    return f"{_READABLE.sub('-', name)[:NAME_LENGTH_MAX].strip('-') or 'sink'}-{full}"


def job_sink_id(topic: str | None, token: str) -> str:
    """Return a new id for a batch job without one; the job prints it."""
    name = _READABLE.sub("-", topic or "")[:NAME_LENGTH_MAX].strip("-")
    return f"job-{name}-{token}" if name else f"job-{token}"


def checked(sink_id: str) -> str:
    if not sink_id or len(sink_id) > SINK_ID_LENGTH_MAX or not sink_id.isprintable():
        raise WrongSinkId(
            f"sink.id is {sink_id!r}: it must have 1 to {SINK_ID_LENGTH_MAX} printable characters"
        )
    return sink_id


def driver_id(sink_id: str) -> str:
    return sink_id + DRIVER_SUFFIX


def worker_id(sink_id: str, worker: str, ordinal: int) -> str:
    """Return a transactional id; `worker` is random, made by the worker process after its fork."""
    return f"{sink_id}.{worker}.{ordinal}"


def belongs_to(sink_id: str, transactional_id: str) -> bool:
    """Return whether a transactional id belongs to one of the sink's workers."""
    if not transactional_id.startswith(sink_id):
        return False
    return _WORKER_SUFFIX.fullmatch(transactional_id, len(sink_id)) is not None


def workers_pattern(sink_id: str) -> str:
    """Return a regular expression of the workers' ids for servers (RE2)."""
    return re.escape(sink_id) + r"\.[0-9a-f]{16}\.[0-9]+"


def sink_of(transactional_id: str) -> str | None:
    """Return the sink of a transactional id, if it is one of ours."""
    if transactional_id.endswith(DRIVER_SUFFIX):
        return transactional_id.removesuffix(DRIVER_SUFFIX) or None
    found = re.fullmatch(r"(.+)\.[0-9a-f]{16}\.[0-9]+", transactional_id, re.DOTALL)
    return found[1] if found else None
