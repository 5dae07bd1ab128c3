"""Merges files, environment and command line into one configuration.

`--set` comes before the environment, the environment before files, files before defaults. The
caller reads the sources: texts come in, with names for people.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.config.broker import BrokerConfig, Setting
from penstock.config.check import (
    AUTHORIZER,
    STANDARD_AUTHORIZER,
    PartialConfig,
    broker_problems,
)
from penstock.config.environment import settings_in, variable_of_key
from penstock.config.key import Effect
from penstock.config.properties import PropertiesError, parse_properties
from penstock.config.table import (
    AUTHORIZER_KEYS,
    BROKER_KEYS,
    TOPIC_KEYS,
    belongs_to_plugin,
    find_broker_key,
    nearest,
    removed_key,
)
from penstock.config.values import parse
from penstock.errors import InvalidConfig


class ConfigRejected(Exception):
    """The node cannot start with this; `problems` has one sentence per reason. `warnings` are those
    of a valid configuration, because they may name the cause. `config` has the readable values,
    or is None for a file that could not be read to its end."""

    def __init__(
        self,
        problems: Sequence[str],
        warnings: Sequence[str] = (),
        without_effect: Sequence["WithoutEffect"] = (),
        config: BrokerConfig | None = None,
    ) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)
        self.warnings = tuple(warnings)
        self.without_effect = tuple(without_effect)
        self.config = config


class ConfigText(NamedTuple):
    """The text of a properties file, and its name."""

    name: str
    text: str


class WithoutEffect(NamedTuple):
    """An accepted setting without effect; `value` is the part without effect."""

    key: str
    value: str
    where: str
    why: str

    def __str__(self) -> str:
        return f"{self.where}: {self.key}={self.value}: {self.why}"


class Loaded(NamedTuple):
    """A configuration that a node can start with, and its warnings for the user."""

    config: BrokerConfig
    warnings: tuple[str, ...]
    without_effect: tuple[WithoutEffect, ...]


class _FoundValue(NamedTuple):
    key: str
    text: str
    where: str
    rank: int


NOT_SET = _FoundValue("", "", "", 0)


def load(
    files: Sequence[ConfigText] = (),
    environment: Mapping[str, str] | None = None,
    sets: Sequence[str] = (),
) -> Loaded:
    """Merge the sources; raise ConfigRejected with every problem, in the order above."""
    problems: list[str] = []
    warnings: list[str] = []
    settings: dict[str, _FoundValue] = {}
    found = _collect_files(files, problems)
    whole = not problems  # the rest of an unreadable file is unknown
    found += _collect_environment(environment or {}, len(files))
    found += _collect_sets(sets, len(files) + 1, problems)
    idle = [each for each in map(_of_plugin, found) if each is not None]
    for each in found:
        if not _is_known(each, warnings, problems):
            continue
        before = settings.get(each.key)
        if before is not None and before.rank == each.rank:
            warnings.append(f"{each.key}: {before.where} is overridden by {each.where}")
        settings[each.key] = each
    _drop_shadows(settings, warnings)
    if not settings.get(AUTHORIZER, NOT_SET).text.strip():
        warnings += (
            f"{settings[name].where}: {name} has no effect without an authorizer: everyone who "
            f"reaches the listeners may do everything. Set {AUTHORIZER}={STANDARD_AUTHORIZER}"
            for name in AUTHORIZER_KEYS
            if name in settings
        )
    unreadable = [each.key for each in settings.values() if not _check_value(each, problems)]
    static = {key: Setting(each.text, each.where) for key, each in settings.items()}
    config = PartialConfig(static, unreadable) if unreadable else BrokerConfig(static)
    wrong = broker_problems(config) if whole else []
    problems += (each.text for each in wrong)
    # A key that prevents the start has an effect.
    blamed = {key for each in wrong for key in each.keys}
    idle += (each for each in _without_effect(config) if each.key not in blamed)
    if problems:
        raise ConfigRejected(problems, warnings, idle, config if whole else None)
    return Loaded(config, tuple(warnings), tuple(idle))


def _collect_files(files: Sequence[ConfigText], problems: list[str]) -> list[_FoundValue]:
    """Return the settings of the files, weakest first."""
    found: list[_FoundValue] = []
    for rank, file in enumerate(files):
        try:
            for line, key, value in parse_properties(file.text):
                found.append(_FoundValue(key, value, f"{file.name} line {line}", rank))
        except PropertiesError as problem:
            problems.append(f"{file.name} {problem}")
    return found


def _collect_environment(environment: Mapping[str, str], rank: int) -> list[_FoundValue]:
    return [
        _FoundValue(key, value, f"environment {variable}", rank)
        for variable, key, value in settings_in(environment)
    ]


def _collect_sets(sets: Sequence[str], rank: int, problems: list[str]) -> list[_FoundValue]:
    found: list[_FoundValue] = []
    for text in sets:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            problems.append(f"--set {text}: must be KEY=VALUE, e.g. --set num.partitions=3")
            continue
        found.append(_FoundValue(key.strip(), value, f"--set {key.strip()}", rank))
    return found


def _is_known(found: _FoundValue, warnings: list[str], problems: list[str]) -> bool:
    """Return whether the key exists; else add a suggestion to the warnings or problems."""
    name = found.key
    if find_broker_key(name) is not None:
        return True
    if (gone := removed_key(name)) is not None:
        (problems if gone.stops else warnings).append(f"{found.where}: {name}: {gone.way_out}")
        return False
    if belongs_to_plugin(name):
        return False
    hint = "it is ignored"
    if (topic_key := TOPIC_KEYS.get(name)) is not None and topic_key.synonyms:
        hint += f"; for all topics it is called {topic_key.synonyms[0][0]}"
    elif (near := nearest(name, BROKER_KEYS)) is not None:
        spelled = f" ({variable_of_key(near)})" if found.where.startswith("environment") else ""
        hint += f"; did you mean {near}{spelled}?"
    warnings.append(f"{found.where}: {name} is not a known key; {hint}")
    return False


def _drop_shadows(settings: dict[str, _FoundValue], warnings: list[str]) -> None:
    """Let a stronger source win with a weaker key too: --set log.dir over a file's log.dirs."""
    for name in [name for name in settings if name in BROKER_KEYS]:
        for weaker, _ in BROKER_KEYS[name].synonyms:
            here, there = settings.get(name), settings.get(weaker)
            if here is not None and there is not None and there.rank > here.rank:
                warnings.append(f"{name}: {here.where} is overridden by {there.where}")
                del settings[name]


def _check_value(found: _FoundValue, problems: list[str]) -> bool:
    """Return whether the key allows its value."""
    key = find_broker_key(found.key)
    assert key is not None, "unknown keys were sorted out before"
    if not found.text.strip() and key.default is None:
        return True
    try:
        parse(key, found.text)
    except InvalidConfig as problem:
        problems.append(f"{found.where}: {problem.message}")
        return False
    return True


_WHY = {
    Effect.LATER: "not served yet",
    Effect.NEVER: "nothing here needs it",
}


def _without_effect(config: BrokerConfig) -> Iterator[WithoutEffect]:
    for name, setting in config.static.items():
        key = find_broker_key(name)
        if key is not None and key.effect is not Effect.NOW:
            shown = "(hidden)" if key.sensitive else setting.text
            yield WithoutEffect(name, shown, setting.where, _WHY[key.effect])


def _of_plugin(found: _FoundValue) -> WithoutEffect | None:
    if not belongs_to_plugin(found.key):
        return None
    why = "a plug-in of Kafka reads it, and there are none here"
    return WithoutEffect(found.key, "(hidden)", found.where, why)
