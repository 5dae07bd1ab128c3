"""Parses a `sasl.jaas.config` value as Java does.

The value is one login module: its class, a control flag, options `name="value"`, a semicolon. Java
cuts it into tokens by its StreamTokenizer. Quotes, backslashes, comments and numbers follow the
same rules here, because passwords contain such characters.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

CONTROL_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
EXAMPLE = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="user" password="secret";'
)

# As Java's StreamTokenizer by its defaults: a single slash starts a comment, and a quoted text ends
# at the same quote or at the end of its line.
_TOKEN = re.compile(
    r"""
    (?P<blank>   [\x00-\x20]+ | /\*.*?(?:\*/|\Z) | /[^\r\n]* )
  | (?P<quote>["']) (?P<text> (?: \\. | (?!(?P=quote))[^\\\r\n] )* \\? ) (?P=quote)?
  | (?P<number>  -?[0-9.]+ )
  | (?P<word>    [A-Za-z_$\xA0-\U0010FFFF] [A-Za-z0-9._$\xA0-\U0010FFFF-]* )
  | (?P<sign>    . )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class BadJaasConfig(ValueError):
    """The value is not one login module; the text names the fault and never shows a value."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A login module; its options may be secrets and are not printed."""

    name: str
    options: dict[str, str] = field(repr=False)

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]


class _Token(NamedTuple):
    """A token; `kind` is text (a word, or anything in quotes), number or sign."""

    kind: str
    text: str


def parse_jaas(text: str) -> LoginModule:
    """Return the one login module of this value."""
    tokens = list(_tokens(text))
    if not tokens:
        raise BadJaasConfig(f"sasl.jaas.config is empty; it looks like: {EXAMPLE}")
    if tokens[0].kind != "text":
        raise BadJaasConfig("sasl.jaas.config does not begin with the class of a login module")
    if len(tokens) < 2 or tokens[1].text.lower() not in CONTROL_FLAGS:
        raise BadJaasConfig("sasl.jaas.config has no control flag; use `required`")
    options: dict[str, str] = {}
    position = 2
    while position < len(tokens) and tokens[position] != ("sign", ";"):
        name = tokens[position].text
        rest = tokens[position + 1 : position + 3]
        if len(rest) < 2 or rest[0] != ("sign", "=") or rest[1].kind != "text":
            raise BadJaasConfig(
                f'sasl.jaas.config gives no value to {name}; write {name}="...", in quotes'
            )
        options[name] = rest[1].text
        position += 3
    if position == len(tokens):
        raise BadJaasConfig("sasl.jaas.config does not end with a semicolon")
    if position + 1 < len(tokens):
        raise BadJaasConfig("sasl.jaas.config has more than one login module")
    return LoginModule(tokens[0].text, options)


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        match found.lastgroup:
            case "quote" | "text":
                yield _Token("text", _ESCAPE.sub(_unescaped, found["text"]))
            case "word":
                yield _Token("text", found[0])
            case "number" | "sign" as kind:
                yield _Token(kind, found[0])


def _unescaped(found: re.Match[str]) -> str:
    """Return the character after a backslash: an escape, up to three octal digits, or itself."""
    escaped = found[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _ESCAPES.get(escaped, escaped)
