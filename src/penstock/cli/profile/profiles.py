"""Profiles: clusters by name, in a TOML file in the user's configuration directory.

    current = "staging"

    [profiles.staging]
    bootstrap = "kafka-1:9092,kafka-2:9092"
    namespace = "dev."

    [profiles.staging.settings]
    "security.protocol" = "SASL_SSL"

PENSTOCK_CONFIG names another file. It may hold secrets: it is written so that only its owner can
read it, as a whole or not at all. Comments that somebody wrote into it are lost when it is written.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import typer

from penstock.cli.terminal.output import CommandFailed, WrongUsage, reason_of

VARIABLE = "PENSTOCK_CONFIG"
FILE_NAME = "config.toml"
FILE_BYTES_MAX = 1024 * 1024
OWNER_ONLY = 0o600
OTHERS = 0o077

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
# Keys with secret values: passwords, JAAS lines with passwords, tokens, private keys.
_SECRET = re.compile(
    r"password|passphrase|secret|jaas|token|credential|user\.info|\.key(\.pem|$)|key\.pem"
)
_NOT_SECRET = frozenset({"sasl.oauthbearer.token.endpoint.url"})
HIDDEN = "(hidden)"


@dataclass(frozen=True, slots=True)
class Profile:
    bootstrap: str | None = None
    namespace: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_secrets(self) -> bool:
        return any(map(is_secret, self.settings))


@dataclass(frozen=True, slots=True)
class Profiles:
    current: str | None = None
    by_name: Mapping[str, Profile] = field(default_factory=dict)

    def named(self, name: str) -> Profile:
        if name in self.by_name:
            return self.by_name[name]
        known = ", ".join(sorted(self.by_name)) or "none"
        raise WrongUsage(
            f"there is no profile {name}; there is {known}. `penstock profile set {name} "
            "bootstrap=HOST:PORT` makes it"
        )

    def chosen(self, name: str | None) -> Profile:
        """Return the profile of this name, or the current one, or an empty one."""
        chosen = name or self.current
        return self.named(chosen) if chosen else Profile()

    def with_profile(self, name: str, profile: Profile) -> "Profiles":
        return replace(self, by_name={**self.by_name, name: profile})

    def without(self, name: str) -> "Profiles":
        left = {each: profile for each, profile in self.by_name.items() if each != name}
        return Profiles(None if self.current == name else self.current, left)


def is_secret(key: str) -> bool:
    return key not in _NOT_SECRET and _SECRET.search(key.lower()) is not None


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise WrongUsage(
            f"{name!r} cannot be the name of a profile: use letters, digits, dots, dashes"
        )
    return name


def profiles_path(environment: Mapping[str, str] | None = None) -> Path:
    known = os.environ if environment is None else environment
    if named := known.get(VARIABLE):
        return Path(named)
    return Path(typer.get_app_dir("penstock")) / FILE_NAME


# -- reading


def read_profiles(path: Path) -> Profiles:
    """Return the profiles of the file; none if there is no file."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return Profiles()
    except OSError as problem:
        raise WrongUsage(f"{path}: {reason_of(problem)}") from None
    if len(data) > FILE_BYTES_MAX:
        raise WrongUsage(f"{path}: too large for profiles")
    # Loaded only where there is a file: most commands have none.
    import tomllib

    try:
        return _profiles(tomllib.loads(data.decode()))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, _Malformed) as problem:
        raise WrongUsage(f"{path}: {problem}") from None


class _Malformed(Exception):
    """The file is TOML, but has no valid profiles."""


def _profiles(table: dict[str, Any]) -> Profiles:
    _check_names(table, {"current", "profiles"}, "the file")
    found = table.get("profiles", {})
    if not isinstance(found, dict):
        raise _Malformed("profiles must be a table")
    by_name = {name: _profile(name, each) for name, each in found.items()}
    return Profiles(_text(table.get("current"), "current"), by_name)


def _profile(name: str, table: Any) -> Profile:
    if not isinstance(table, dict):
        raise _Malformed(f"profiles.{name} must be a table")
    where = f"profiles.{name}"
    _check_names(table, {"bootstrap", "namespace", "settings"}, where)
    settings = table.get("settings", {})
    if not isinstance(settings, dict):
        raise _Malformed(f"{where}.settings must be a table")
    return Profile(
        _text(table.get("bootstrap"), f"{where}.bootstrap"),
        _text(table.get("namespace"), f"{where}.namespace"),
        {key: _setting(value, f"{where}.settings.{key}") for key, value in settings.items()},
    )


def _check_names(table: dict[str, Any], known: set[str], where: str) -> None:
    for name in table:
        if name not in known:
            raise _Malformed(
                f"{where} has {name!r}; it may have {', '.join(sorted(known))}. Keys with dots "
                'need quotes: "security.protocol" = "SSL"'
            )


def _text(value: Any, where: str) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    raise _Malformed(f"{where} must be a text in quotes")


def _setting(value: Any, where: str) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case dict():
            raise _Malformed(f'{where} is a table; keys with dots need quotes: "a.b" = "c"')
        case _:
            raise _Malformed(f"{where} must be a text or a number")


# -- writing


def write_profiles(path: Path, profiles: Profiles) -> None:
    """Replace the file atomically; only its owner may read the new file."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with open(os.open(beside, flags, OWNER_ONLY), "w", encoding="utf-8") as file:
            file.write(to_toml(profiles))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as problem:
        beside.unlink(missing_ok=True)
        raise CommandFailed(f"{path}: {reason_of(problem)}") from None


def to_toml(profiles: Profiles) -> str:
    lines = [f"current = {_quoted(profiles.current)}", ""] if profiles.current else []
    for name, profile in sorted(profiles.by_name.items()):
        lines.append(f"[profiles.{_key(name)}]")
        for key in ("bootstrap", "namespace"):
            if value := getattr(profile, key):
                lines.append(f"{key} = {_quoted(value)}")
        lines.append("")
        if profile.settings:
            lines.append(f"[profiles.{_key(name)}.settings]")
            lines += [f"{_key(k)} = {_quoted(v)}" for k, v in sorted(profile.settings.items())]
            lines.append("")
    return "\n".join(lines)


def _key(text: str) -> str:
    return text if _BARE_KEY.fullmatch(text) else _quoted(text)


def _quoted(text: str) -> str:
    """Return a basic string of TOML."""
    signs = {'"': '\\"', "\\": "\\\\"}
    return (
        '"'
        + "".join(
            signs.get(each) or (each if each.isprintable() else f"\\U{ord(each):08x}")
            for each in text
        )
        + '"'
    )


def readable_by_others(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & OTHERS)
    except OSError:
        return False
