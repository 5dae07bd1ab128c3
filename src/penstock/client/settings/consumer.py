"""Settings of a consumer, by Kafka's rules.

The consumer itself stores offsets, at the end of each body of the loop; librdkafka stores none.
"""

import re
from collections.abc import Mapping
from typing import cast

from penstock.client.addresses import BootstrapLike
from penstock.client.settings.key_reader import ConfiguredKeys, read
from penstock.client.settings.keys_consumer import FETCH_BYTES_MOST
from penstock.client.settings.security import rdkafka_security
from penstock.client.settings.shared import rdkafka_connection
from penstock.client.settings.table import Client
from penstock.client.settings.values import (
    ConsumerSettings,
    Isolation,
    OffsetReset,
    RdkafkaValue,
    SettingRefused,
    SettingValue,
)

AUTO_COMMIT_INTERVAL_MS_MOST = 86_400_000
POLL_INTERVAL_MS_MOST = 86_400_000
SESSION_TIMEOUT_MS_MOST = 3_600_000
_SESSION = "session.timeout.ms"
# Kafka has the same limit, that of a topic name.
_LEGAL_INSTANCE = re.compile(r"(?!\.\.?$)[A-Za-z0-9._-]{1,249}")
FETCH_BACKOFF_MS = 20
FETCH_BYTES_LEAST = 1_000
MESSAGE_BYTES = 1_000_000
BY_DURATION = "by_duration:"
# Durations as Java writes them (ISO 8601): PT1H30M, P2D, PT0.5S.
_DURATION = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?\d+)D)?"
    r"(?P<time>T(?:(?P<hours>[-+]?\d+)H)?(?:(?P<minutes>[-+]?\d+)M)?"
    r"(?:(?P<seconds>[-+]?\d+(?:[.,]\d{0,9})?)S)?)?",
    re.IGNORECASE,
)
_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000}
_RESET_WORDS: Mapping[str, OffsetReset] = {
    "earliest": "earliest",
    "latest": "latest",
    "none": "none",
    # librdkafka's words for them
    "smallest": "earliest",
    "beginning": "earliest",
    "largest": "latest",
    "end": "latest",
    "error": "none",
}
_ASSIGNORS: Mapping[str, str] = {
    "range": "range",
    "roundrobin": "roundrobin",
    "cooperative-sticky": "cooperative-sticky",
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}
_STICKY = ("sticky", "org.apache.kafka.clients.consumer.StickyAssignor")
# With group.protocol=consumer the brokers decide these keys; each has its next step.
_OF_BROKERS: Mapping[str, str] = {
    "session.timeout.ms": "set consumer.session.timeout.ms of the group "
    "(`penstock config set --group NAME`)",
    "heartbeat.interval.ms": "set consumer.heartbeat.interval.ms of the group "
    "(`penstock config set --group NAME`)",
    "partition.assignment.strategy": "set group.remote.assignor instead",
}


def consumer_settings(
    given: Mapping[str, SettingValue] | None = None, *, bootstrap: BootstrapLike | None = None
) -> ConsumerSettings:
    """Return the checked settings. Raise SettingRefused with the key, the cause and the next
    step."""
    said = read(given, Client.CONSUMER, bootstrap)
    group_id = _group_id(said)
    auto_commit = _auto_commit(said, group_id)
    offset_reset = _offset_reset(said)
    isolation = cast("Isolation", said.get("isolation.level", "read_uncommitted"))
    interval_ms = said.whole("auto.commit.interval.ms")
    rdkafka: dict[str, RdkafkaValue] = {
        # By default librdkafka pauses fetching for a second above its limit, and a fast reader
        # waits.
        "fetch.queue.backoff.ms": FETCH_BACKOFF_MS,
        **said.plain_rdkafka(),
        **rdkafka_connection(said),
        **rdkafka_security(said),
        **_group(said),
        **_fetching(said),
        "auto.offset.reset": offset_reset if offset_reset in ("earliest", "latest") else "error",
        "isolation.level": isolation,
        "check.crcs": said.get("check.crcs", True),
        "allow.auto.create.topics": said.get("allow.auto.create.topics", True),
        "enable.auto.offset.store": False,
        "enable.auto.commit": auto_commit,
        # 0 would disable librdkafka's commits; in Kafka 0 means as often as possible.
        "auto.commit.interval.ms": min(max(interval_ms, 1), AUTO_COMMIT_INTERVAL_MS_MOST),
    }
    return ConsumerSettings(
        rdkafka={**rdkafka, **said.own},
        group_id=group_id,
        auto_commit=auto_commit,
        auto_commit_interval_ms=interval_ms,
        offset_reset=offset_reset,
        poll_records_max=said.whole("max.poll.records"),
        api_timeout_ms=said.whole("default.api.timeout.ms"),
        handler_timeout_ms=said.whole("handler.timeout.ms"),
        revoke_timeout_ms=said.whole("revoke.timeout.ms"),
        key_deserializer=said.get("key.deserializer", None),
        value_deserializer=said.get("value.deserializer", None),
        interceptors=said.get("interceptor.classes", ()),
        namespace=said.text("namespace"),
        isolation=isolation,
        excludes_internal_topics=said.get("exclude.internal.topics", True),
        serde=said.serde,
        ignored=said.ignored,
    )


def _group_id(said: ConfiguredKeys) -> str | None:
    if said.has("group.id") and not said.text("group.id"):
        raise SettingRefused("group.id", "is empty; leave it out, or give it a name")
    instance = "group.instance.id"
    if said.has(instance) and not _LEGAL_INSTANCE.fullmatch(said.text(instance) or ""):
        raise SettingRefused(
            instance,
            f"is {said.text(instance) or ''!r}; it takes 1 to 249 letters, digits, dots, "
            "underscores and dashes, and is neither . nor ..",
        )
    return said.text("group.id")


def _auto_commit(said: ConfiguredKeys, group_id: str | None) -> bool:
    enabled: bool = said.get("enable.auto.commit", group_id is not None)
    if enabled and group_id is None:
        raise SettingRefused(
            "enable.auto.commit", "is true, and there is no group to commit for; set group.id"
        )
    return enabled


def _offset_reset(said: ConfiguredKeys) -> OffsetReset:
    text = (said.text("auto.offset.reset") or "latest").lower()
    word = _RESET_WORDS.get(text)
    if word is not None:
        return word
    if text.startswith(BY_DURATION):
        try:
            return "by_duration", duration_ms(text.removeprefix(BY_DURATION))
        except ValueError as problem:
            raise SettingRefused("auto.offset.reset", str(problem)) from None
    raise SettingRefused(
        "auto.offset.reset",
        f"is {text!r}; it takes earliest, latest, none, or by_duration:PT1H",
    )


def _group(said: ConfiguredKeys) -> dict[str, RdkafkaValue]:
    protocol = said.get("group.protocol", "classic")
    told: dict[str, RdkafkaValue] = {"group.protocol": protocol, **_patience(said)}
    if protocol == "consumer":
        for name, way_out in _OF_BROKERS.items():
            if said.has(name):
                raise SettingRefused(name, f"cannot be set with group.protocol=consumer; {way_out}")
        return told
    if said.text("group.remote.assignor"):
        raise SettingRefused(
            "group.remote.assignor",
            "takes effect with group.protocol=consumer only; set that, or "
            "partition.assignment.strategy instead",
        )
    if said.has("partition.assignment.strategy"):
        told["partition.assignment.strategy"] = _assignors(said)
    session_ms = cast("int", told.get("session.timeout.ms", said.whole(_SESSION)))
    return {**told, **_heartbeat(said, session_ms)}


def _heartbeat(said: ConfiguredKeys, session_ms: int) -> dict[str, RdkafkaValue]:
    """Keep the heartbeat below session.timeout.ms, as Kafka does. A default gives way to a
    configured value, and both give way to a shorter max.poll.interval.ms."""
    name = "heartbeat.interval.ms"
    interval_ms = said.whole(name)
    said_ms = said.whole(_SESSION)
    if said.has(name) and interval_ms >= said_ms:
        raise SettingRefused(
            name,
            f"is {interval_ms}, and has to be below session.timeout.ms ({said_ms}); a third of it "
            "is usual",
        )
    return {} if interval_ms < session_ms else {name: max(session_ms // 3, 1)}


def _patience(said: ConfiguredKeys) -> dict[str, RdkafkaValue]:
    """Keep max.poll.interval.ms at session.timeout.ms or above, as librdkafka requires."""
    interval_ms = min(said.whole("max.poll.interval.ms"), POLL_INTERVAL_MS_MOST)
    session_ms = min(said.whole("session.timeout.ms"), SESSION_TIMEOUT_MS_MOST)
    if interval_ms >= session_ms:
        return {"max.poll.interval.ms": interval_ms}
    if not said.has("max.poll.interval.ms"):
        return {"max.poll.interval.ms": session_ms}
    if said.has("session.timeout.ms"):
        raise SettingRefused(
            "max.poll.interval.ms",
            f"is {interval_ms}, below session.timeout.ms, which librdkafka does not do; raise it: "
            "a slow handler is limited by handler.timeout.ms",
        )
    if said.get("group.protocol", "classic") == "consumer":
        return {"max.poll.interval.ms": interval_ms}
    return {"max.poll.interval.ms": interval_ms, "session.timeout.ms": interval_ms}


def _assignors(said: ConfiguredKeys) -> str:
    name = "partition.assignment.strategy"
    listed = [each.strip() for each in str(said.get(name, "")).split(",") if each.strip()]
    found: list[str] = []
    for each in listed:
        if each in _STICKY:
            raise SettingRefused(
                name, f"{each} is not offered by librdkafka; use cooperative-sticky, or range"
            )
        if each not in _ASSIGNORS:
            raise SettingRefused(
                name,
                f"{each} is not known; it takes range, roundrobin, cooperative-sticky, or Java's "
                "names of them",
            )
        if _ASSIGNORS[each] not in found:
            found.append(_ASSIGNORS[each])
    if not found:
        raise SettingRefused(name, "is empty; it takes range, roundrobin or cooperative-sticky")
    eager = [each for each in found if each != "cooperative-sticky"]
    if eager and len(eager) < len(found):
        said.note(
            name,
            "cooperative-sticky is left out: librdkafka does not offer it beside others. Say it "
            "alone once all members know it",
        )
        return ",".join(eager)
    return ",".join(found)


def _fetching(said: ConfiguredKeys) -> dict[str, RdkafkaValue]:
    """Keep a response large enough for the largest message, as librdkafka requires."""
    if not said.has("fetch.max.bytes"):
        return {}
    asked = said.whole("fetch.max.bytes", 0)
    most = min(max(asked, FETCH_BYTES_LEAST), FETCH_BYTES_MOST)
    if most != asked and asked > 0:
        said.note("fetch.max.bytes", f"{asked} is taken as {most}, librdkafka's limit")
    told: dict[str, RdkafkaValue] = {"fetch.max.bytes": most}
    if most < MESSAGE_BYTES and "message.max.bytes" not in said.own:
        told["message.max.bytes"] = most
    return told


def duration_ms(text: str) -> int:
    """Return milliseconds. Raise ValueError for other text or a negative duration."""
    found = _DURATION.fullmatch(text.strip())
    parts = found.groupdict() if found else {}
    named = [parts.get(each) for each in (*_MS, "seconds")]
    if found is None or not any(named) or (parts["time"] or "x").upper() == "T":
        raise ValueError(f"{text!r} is no duration; it looks like PT1H, P2D or PT30M")
    total = sum(int(parts[unit]) * factor for unit, factor in _MS.items() if parts[unit])
    if parts["seconds"]:
        total += round(float(parts["seconds"].replace(",", ".")) * 1000)
    total = -total if parts["sign"] == "-" else total
    if total < 0:
        raise ValueError(f"{text!r} is below 0")
    return total
