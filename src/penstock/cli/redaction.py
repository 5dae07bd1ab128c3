"""Credentials taken out of what is given away: settings by their keys, texts by their shape."""

import re
from collections.abc import Mapping

from penstock.cli.profiles import HIDDEN, is_secret

# What follows such a word is taken for a credential, up to a space or the closing quote.
_ASSIGNED = re.compile(
    r"""(?ix)
    ([\w.-]* (?: passw(?:or)?d | secret | token | credentials? | api[._-]?key | private[._-]?key )
     [\w.-]* ["']? \s* [=:] \s*)
    ( " (?: [^"\\] | \\. )* " | ' (?: [^'\\] | \\. )* ' | [^\s,;"']+ )
    """
)
_AUTHORIZATION = re.compile(r"(?i)(authorization:\s*(?:basic|bearer)\s+)\S+")
_USER_INFO = re.compile(r"(\w+://)[^/\s@]+@")


def redacted_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings; values of secret keys are hidden."""
    return {key: HIDDEN if is_secret(key) else redacted(value) for key, value in settings.items()}


def redacted(text: str) -> str:
    """Return the text without values that look like credentials."""
    text = _ASSIGNED.sub(rf"\g<1>{HIDDEN}", text)
    text = _AUTHORIZATION.sub(rf"\g<1>{HIDDEN}", text)
    return _USER_INFO.sub(rf"\g<1>{HIDDEN}@", text)
