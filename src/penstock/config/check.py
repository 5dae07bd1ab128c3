"""Checks across keys: values that are valid alone and not together.

Each check raises WrongSetting. `broker_problems` runs them all, so that a start reports all
problems at once, with their locations.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from posixpath import normpath
from typing import NamedTuple

from penstock.config.broker import BrokerConfig, Setting
from penstock.config.check_listeners import LISTENER_CHECKS
from penstock.config.check_quorum import NODE_CHECKS, QUORUM_CHECKS
from penstock.config.exposure import ADVICE, INSECURE, STOPS_START, exposed
from penstock.config.group import GroupConfig
from penstock.config.java_patterns import is_pattern
from penstock.config.key import Key, Mode, Value
from penstock.config.keys_client_metrics import (
    INTERVAL_MS,
    INTERVAL_MS_MAX,
    INTERVAL_MS_MIN,
    MATCH,
    MATCH_NAMES,
)
from penstock.config.keys_group import LIMITS, SESSIONS, GroupKeyLimits
from penstock.config.keys_log import CLEANER_BYTES_PER_THREAD_MIN
from penstock.config.listeners import PROTOCOL_MAP
from penstock.config.table import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    find_broker_key,
    nearest,
)
from penstock.config.topic import TopicConfig
from penstock.config.values import WrongSetting, parse, rejected
from penstock.errors import InvalidConfig, InvalidRequest

JAAS = "sasl.jaas.config"
# The topic keys that are checked beside each other, or beside the broker's.
_READ_TOGETHER = ("min.compaction.lag.ms", "max.compaction.lag.ms", "remote.storage.enable")


def check_broker(config: BrokerConfig) -> None:
    """Raise InvalidConfig with every problem, one per line."""
    problems = broker_problems(config)
    if problems:
        raise InvalidConfig("\n".join(each.text for each in problems))


class BrokerProblem(NamedTuple):
    """A problem that prevents a start, and the keys that are responsible."""

    text: str
    keys: tuple[str, ...]


def broker_problems(config: BrokerConfig) -> list[BrokerProblem]:
    """Return the problems that prevent a start. A check that needs an invalid value is skipped,
    because the value itself is reported."""
    problems: dict[str, BrokerProblem] = {}
    for check in _checks_of(config):
        try:
            check(config)
        except UnreadableSetting:
            continue
        except WrongSetting as problem:
            location = _location(config, problem)
            for line in problem.message.splitlines():
                # Several checks may report the same bad text.
                text = location + line
                problems.setdefault(text, BrokerProblem(text, problem.keys))
    return list(problems.values())


class UnreadableSetting(WrongSetting, code=WrongSetting.code):
    """A check needs a value that its own key rejects."""


class PartialConfig(BrokerConfig):
    """A configuration without the values that their own keys reject."""

    def __init__(self, static: Mapping[str, Setting], unreadable: Collection[str]) -> None:
        self._unreadable = frozenset(unreadable)
        super().__init__({name: each for name, each in static.items() if name not in unreadable})

    def get(self, name: str) -> Value:
        """Return the effective value; raise UnreadableSetting if an invalid one could have given
        it."""
        for each in (name, *(weaker for weaker, _ in BROKER_KEYS[name].synonyms)):
            if each in self._unreadable:
                raise UnreadableSetting(f"{each} cannot be read", each)
        return super().get(name)


def _location(config: BrokerConfig, problem: WrongSetting) -> str:
    for key in problem.keys:
        weaker_keys = BROKER_KEYS[key].synonyms if key in BROKER_KEYS else ()
        for name in (key, *(weaker for weaker, _ in weaker_keys)):
            if name in config.static:
                return f"{config.static[name].where}: "
    return ""


def _check_directories(config: BrokerConfig) -> None:
    if not config.log_dirs:
        raise WrongSetting(
            "log.dirs names no directory; e.g. log.dirs=/var/lib/penstock", "log.dirs"
        )
    paths = [normpath(directory) for directory in config.log_dirs]
    if len(set(paths)) != len(paths):
        raise WrongSetting("log.dirs names a directory twice", "log.dirs")
    metadata = config.metadata_log_dir
    if metadata not in config.log_dirs and normpath(metadata) in paths:
        same = config.log_dirs[paths.index(normpath(metadata))]
        raise WrongSetting(
            f"metadata.log.dir is {metadata}, the same directory as {same} in log.dirs; write it "
            f"in the same way: metadata.log.dir={same}",
            "metadata.log.dir",
        )


def _check_retention(config: BrokerConfig) -> None:
    key = "log.retention.ms"
    if config.integer(key) == 0:
        name = config.synonyms(key)[0].name
        raise WrongSetting(f"{name} is 0; it must be -1 (for ever) or at least 1", key)


_CLEANER_SHARED = "log.cleaner.dedupe.buffer.size", "log.cleaner.threads"


def _check_cleaner(config: BrokerConfig) -> None:
    size, threads = map(config.integer, _CLEANER_SHARED)
    if size // threads < CLEANER_BYTES_PER_THREAD_MIN:
        raise WrongSetting(
            "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner "
            f"thread. log.cleaner.dedupe.buffer.size ({size}) is less than "
            f"{CLEANER_BYTES_PER_THREAD_MIN} bytes for each of log.cleaner.threads ({threads}); "
            "raise the first, or lower the second",
            *_CLEANER_SHARED,
        )


def _check_limits_of_requests(config: BrokerConfig) -> None:
    total, one = "queued.max.request.bytes", "socket.request.max.bytes"
    if 0 < config.integer(total) < config.integer(one):
        raise WrongSetting(
            f"{total} ({config.integer(total)}) is below {one} ({config.integer(one)}): a request "
            "of that size could never be taken in",
            total,
        )


AUTHORIZER, SUPER_USERS = "authorizer.class.name", "super.users"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def _check_authorizer(config: BrokerConfig) -> None:
    name = config.text(AUTHORIZER)
    if name and name != STANDARD_AUTHORIZER:
        raise WrongSetting(
            f"{AUTHORIZER}: {name} is a class of its own, and a node here runs no Java. Set"
            f" {STANDARD_AUTHORIZER}, whose rules are built in; remove the line only if everyone"
            " who reaches the listeners may do everything",
            AUTHORIZER,
        )


def _check_super_users(config: BrokerConfig) -> None:
    for text in config.text(SUPER_USERS).split(";"):
        kind, _, name = text.strip().partition(":")
        if text.strip() and not (kind and name):
            raise WrongSetting(
                f"{SUPER_USERS}: {text.strip()!r} is no principal; write User:alice, and a"
                " semicolon between two of them",
                SUPER_USERS,
            )


def _check_exposure(config: BrokerConfig) -> None:
    if config.text(INSECURE) != STOPS_START:
        return
    if found := exposed(config):
        texts = "; ".join(found)
        raise WrongSetting(f"{texts}, and {INSECURE} is {STOPS_START}. {ADVICE}", INSECURE)


def _check_tiering(config: BrokerConfig) -> None:
    if config.boolean("remote.log.storage.system.enable"):
        raise WrongSetting(
            "remote.log.storage.system.enable: tiered storage is not served yet; remove the line",
            "remote.log.storage.system.enable",
        )


_CHECKS: Sequence[Callable[[BrokerConfig], None]] = (
    *NODE_CHECKS,
    *LISTENER_CHECKS,
    *QUORUM_CHECKS,
    _check_directories,
    _check_retention,
    _check_cleaner,
    _check_limits_of_requests,
    _check_authorizer,
    _check_super_users,
    _check_exposure,
    _check_tiering,
)


def _checks_of(config: BrokerConfig) -> Sequence[Callable[[BrokerConfig], None]]:
    """Return the checks. Those of SASL are loaded only for a node that may use it."""
    names = ("listeners", "controller.listener.names", PROTOCOL_MAP)
    if not any(
        "SASL" in config.static[name].text.upper() for name in names if name in config.static
    ):
        return _CHECKS
    from penstock.config.check_sasl import SASL_CHECKS

    return (*_CHECKS, *SASL_CHECKS)


_LIMITS_OF_CONNECTIONS = "max.connections", "max.connection.creation.rate"


def validate_broker_config(name: str, value: str) -> None:
    """Check one broker key and its value; raise InvalidConfig with key, value, reason and range."""
    key = find_broker_key(name)
    if key is None:
        raise unknown_broker_key(name)
    parsed = parse(key, value)
    if name == "log.retention.ms" and parsed == 0:
        raise rejected(key, value, "Value must be at least 1, or -1 (for ever)")
    if key.name == JAAS:
        _check_jaas(name, value)
    if key.name in _LIMITS_OF_CONNECTIONS and parsed == 0:
        # A file may contain 0, as in Kafka. On a running node 0 would prevent the correction.
        raise InvalidConfig(f"Invalid {key.name} {value}; the value must be at least 1")


def _check_jaas(name: str, value: str) -> None:
    """Raise InvalidConfig for the login module of a mechanism if it cannot be read."""
    from penstock.config.sasl import check_login_module
    from penstock.credentials.jaas import BadJaasConfig

    mechanism = name.removesuffix(f".{JAAS}").rpartition(".")[2].upper()
    try:
        check_login_module(mechanism, value)
    except BadJaasConfig as problem:
        raise InvalidConfig(f"Invalid value (hidden) for configuration {name}: {problem}") from None


def validate_broker_changes(changed: Collection[str], after: BrokerConfig) -> None:
    """Check changed keys together with the other settings."""
    if any(name in changed for name in _CLEANER_SHARED):
        _check_cleaner(after)


# Kafka opens and closes listeners at run time; a node here binds its addresses at its start.
_BOUND_AT_START = ("listeners", "listener.security.protocol.map")


def check_dynamic(names: Iterable[str], *, cluster_wide: bool) -> None:
    """Raise InvalidRequest if one of these broker keys cannot change while the cluster runs."""
    modes: dict[str, Mode] = {}
    for name in names:
        key = find_broker_key(name)
        if key is None:
            raise unknown_broker_key(name)
        modes[name] = key.mode
    if fixed := [
        name for name, mode in modes.items() if mode is Mode.READ_ONLY or name in _BOUND_AT_START
    ]:
        raise InvalidRequest(
            f"Cannot update these configs dynamically: [{', '.join(fixed)}]. "
            "Set them in server.properties and start the broker again"
        )
    single = [name for name, mode in modes.items() if mode is Mode.PER_BROKER]
    if cluster_wide and single:
        raise InvalidRequest(
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"[{', '.join(single)}]"
        )


def validate_topic_config(name: str, value: str) -> None:
    """Check one topic key and its value; raise InvalidConfig with key, value, reason and range."""
    key = TOPIC_KEYS.get(name)
    if key is None:
        raise unknown_topic_key(name)
    parse(key, value)


def validate_topic_overrides(overrides: Mapping[str, str], broker: BrokerConfig) -> None:
    """Check all overrides of one topic, alone and together."""
    for name, value in overrides.items():
        validate_topic_config(name, value)
    # A long list is not read a second time.
    read_together = {name: overrides[name] for name in _READ_TOGETHER if name in overrides}
    topic = TopicConfig(read_together, broker)
    low, high = topic.integer("min.compaction.lag.ms"), topic.integer("max.compaction.lag.ms")
    if low > high:
        raise InvalidConfig(
            "conflict topic config setting "
            f"min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )
    if topic.boolean("remote.storage.enable"):
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured "
            "with remote log storage. Leave remote.storage.enable at false"
        )


def validate_group_overrides(overrides: Mapping[str, str], broker: BrokerConfig) -> None:
    """Check all settings of one group: alone, within the broker's limits, and together."""
    for name, text in overrides.items():
        key = GROUP_KEYS.get(name)
        if key is None:
            raise unknown_group_key(name)
        _check_limits(key, parse(key, text), LIMITS.get(name), broker)
    group = GroupConfig(overrides, broker)
    for session, heartbeat in SESSIONS.items():
        if session not in overrides and heartbeat not in overrides:
            continue
        session_ms, heartbeat_ms = group.integer(session), group.integer(heartbeat)
        if session_ms <= heartbeat_ms:
            raise InvalidConfig(
                f"{session} ({session_ms}) must be above {heartbeat} ({heartbeat_ms}): a member "
                "must be able to report before it is given up"
            )


def validate_client_metrics(texts: Mapping[str, str]) -> None:
    """Raise Kafka's error, with Kafka's text, if a key of one subscription is invalid."""
    for name, text in texts.items():
        key = CLIENT_METRICS_KEYS.get(name)
        if key is None:
            raise InvalidRequest(f"Unknown client metrics configuration: {name}")
        value = parse(key, text)
        if name == INTERVAL_MS:
            assert isinstance(value, int), "an interval is a whole number"
            if not INTERVAL_MS_MIN <= value <= INTERVAL_MS_MAX:
                raise InvalidRequest(
                    f"Invalid value {value} for {INTERVAL_MS}, interval must be between "
                    f"{INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} (1 hour)"
                )
        elif name == MATCH:
            assert isinstance(value, tuple), "the criteria are a list"
            for criterion in value:
                field, _, pattern = map(str.strip, criterion.partition("="))
                known = field in MATCH_NAMES and "=" not in pattern
                if not known or not pattern or not is_pattern(pattern):
                    raise InvalidConfig(f"Illegal client matching pattern: {criterion}")


def validate_group_default(name: str, text: str, broker: BrokerConfig) -> None:
    """Check that a broker's default for groups keeps to the limits of a group's own setting."""
    for each in GROUP_KEYS.values():
        if each.synonyms and each.synonyms[0][0] == name:
            key = BROKER_KEYS[name]
            _check_limits(key, parse(key, text), LIMITS.get(each.name), broker)


def _check_limits(
    key: Key, value: Value, limits: GroupKeyLimits | None, broker: BrokerConfig
) -> None:
    if limits is None:
        return
    assert isinstance(value, int), "limits are on whole numbers"
    low, high = limits
    if low is not None and value < broker.integer(low):
        raise InvalidConfig(
            f"{key.name} must be greater than or equal to {low}: "
            f"{value} is below {broker.integer(low)}"
        )
    if value > broker.integer(high):
        raise InvalidConfig(
            f"{key.name} must be less than or equal to {high}: "
            f"{value} is above {broker.integer(high)}"
        )


def unknown_broker_key(name: str) -> InvalidConfig:
    return _unknown("broker", name, nearest(name, BROKER_KEYS))


def unknown_topic_key(name: str) -> InvalidConfig:
    return _unknown("topic", name, _of_synonym(name, TOPIC_KEYS) or nearest(name, TOPIC_KEYS))


def unknown_group_key(name: str) -> InvalidConfig:
    return _unknown("group", name, _of_synonym(name, GROUP_KEYS) or nearest(name, GROUP_KEYS))


def _of_synonym(name: str, keys: Mapping[str, Key]) -> str | None:
    """Return the key that gets its default from this broker key: retention.ms for
    log.retention.ms."""
    return next((key.name for key in keys.values() if name in dict(key.synonyms)), None)


def _unknown(kind: str, name: str, near: str | None) -> InvalidConfig:
    # Kafka's wording first, since tools search for it.
    hint = f"; did you mean {near}?" if near else ""
    return InvalidConfig(f"Unknown {kind} config name: {name}{hint}")
