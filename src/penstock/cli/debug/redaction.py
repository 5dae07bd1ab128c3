"""Removes credentials: from settings by their keys, from texts by their shape."""

import re
from collections.abc import Mapping

from penstock.cli.profile.profiles import HIDDEN, is_secret

# The text after such a word is a credential, up to a space or the closing quote.
_ASSIGNED = re.compile(
    r"""(?ix)
    ([\w.-]* (?: passw(?:or)?d | passphrase | secret | token | credentials? | user[._-]?info
                   | api[._-]?key | private[._-]?key )
     [\w.-]* ["']? \s* [=:] \s*)
    ( " (?: [^"\\] | \\. )* " | ' (?: [^'\\] | \\. )* ' | [^\s,;"']+ )
    """
)
# A word after a space may be a credential, too, unless it describes the credential.
_SPOKEN = re.compile(
    r"""(?ix)
    (\b (?: passw(?:or)?d | passphrase ) \s+ (?: is \s+ | was \s+ )?)
    (?! (?: and | are | as | authentication | based | callback | cannot | did | does | failed | file
        | for | from | given | has | in | incorrect | invalid | is | mismatch | missing | must | not
        | of | or | set | that | to | too | was | were | will | with | wrong )\b )
    [^\s,;"'(]+
    """
)
_PRIVATE_KEY = re.compile(
    r"(-----BEGIN[^-\n]*PRIVATE KEY-----).*?(-----END[^-\n]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_PRIVATE_KEY_END = re.compile(r"-----END[^-\n]*PRIVATE KEY-----")
_BASE64_LINE = re.compile(r"[A-Za-z0-9+/=\s]*")
_AUTHORIZATION = re.compile(r"(?i)(authorization:\s*(?:basic|bearer)\s+)\S+")
_USER_INFO = re.compile(r"(\w+://)[^/\s@]+@")


def redacted_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings; values of secret keys are hidden."""
    return {key: HIDDEN if is_secret(key) else redacted(value) for key, value in settings.items()}


def redacted(text: str) -> str:
    """Return the text without values that look like credentials."""
    text = _PRIVATE_KEY.sub(rf"\g<1>{HIDDEN}\g<2>", _without_key_tail(text))
    text = _ASSIGNED.sub(rf"\g<1>{HIDDEN}", text)
    text = _SPOKEN.sub(rf"\g<1>{HIDDEN}", text)
    text = _AUTHORIZATION.sub(rf"\g<1>{HIDDEN}", text)
    return _USER_INFO.sub(rf"\g<1>{HIDDEN}@", text)


def _without_key_tail(text: str) -> str:
    """Return the text without the rest of a private key that began before the text."""
    end = _PRIVATE_KEY_END.search(text)
    if end is None or "-----BEGIN" in text[: end.start()]:
        return text
    lines = text[: end.start()].splitlines(keepends=True)
    while lines and _BASE64_LINE.fullmatch(lines[-1]):
        lines.pop()
    return f"{''.join(lines)}{HIDDEN}{text[end.start() :]}"
