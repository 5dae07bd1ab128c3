"""Parses a `sasl.jaas.config` value as Java does.

The value is one login module: its class, a control flag, options `name="value"`, a semicolon. Java
cuts it into tokens by its StreamTokenizer. Quotes, backslashes, comments and numbers follow the
same rules here, because passwords contain such characters.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

CONTROL_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
EXAMPLE = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="user" password="secret";'
)

_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_QUOTES = "\"'"
_LINE_ENDS = "\r\n"


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


class _TokenKind(Enum):
    TEXT = "text"  # a word, or anything in quotes
    NUMBER = "number"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class _Token:
    kind: _TokenKind
    text: str

    def is_sign(self, sign: str) -> bool:
        return self.kind is _TokenKind.SIGN and self.text == sign


def parse_jaas(text: str) -> LoginModule:
    """Return the one login module of this value."""
    tokens = list(_tokens(text))
    if not tokens:
        raise BadJaasConfig(f"sasl.jaas.config is empty; it looks like: {EXAMPLE}")
    if tokens[0].kind is not _TokenKind.TEXT:
        raise BadJaasConfig("sasl.jaas.config does not begin with the class of a login module")
    if len(tokens) < 2 or tokens[1].text.lower() not in CONTROL_FLAGS:
        raise BadJaasConfig("sasl.jaas.config has no control flag; use `required`")
    options: dict[str, str] = {}
    position = 2
    while position < len(tokens) and not tokens[position].is_sign(";"):
        name = tokens[position].text
        rest = tokens[position + 1 : position + 3]
        if len(rest) < 2 or not rest[0].is_sign("=") or rest[1].kind is not _TokenKind.TEXT:
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
    position = 0
    while True:
        position = _skip_blanks(text, position)
        if position >= len(text):
            return
        character = text[position]
        if character in _QUOTES:
            content, position = _quoted(text, position)
            yield _Token(_TokenKind.TEXT, content)
        elif _begins_number(text, position):
            end = _end_of(text, position + 1, number=True)
            yield _Token(_TokenKind.NUMBER, text[position:end])
            position = end
        elif _in_word(character) and character != "-":
            end = _end_of(text, position + 1, number=False)
            yield _Token(_TokenKind.TEXT, text[position:end])
            position = end
        else:
            yield _Token(_TokenKind.SIGN, character)
            position += 1


def _skip_blanks(text: str, position: int) -> int:
    """Skip blanks and comments. A single slash starts a comment too, as by Java's defaults."""
    while position < len(text):
        if text[position] <= " ":
            position += 1
        elif text.startswith("/*", position):
            end = text.find("*/", position + 2)
            position = len(text) if end < 0 else end + 2
        elif text[position] == "/":
            while position < len(text) and text[position] not in _LINE_ENDS:
                position += 1
        else:
            break
    return position


def _quoted(text: str, position: int) -> tuple[str, int]:
    """Return the quoted text and its end: at the same quote, or at the end of the line."""
    quote = text[position]
    out: list[str] = []
    position += 1
    while position < len(text) and text[position] not in _LINE_ENDS:
        character = text[position]
        position += 1
        if character == quote:
            return "".join(out), position
        if character == "\\" and position < len(text):
            character, position = _escaped(text, position)
        out.append(character)
    return "".join(out), position


def _escaped(text: str, position: int) -> tuple[str, int]:
    """Return the character after a backslash: an escape, up to three octal digits, or itself."""
    first = text[position]
    if first not in "01234567":
        return _ESCAPES.get(first, first), position + 1
    digits_max = 3 if first <= "3" else 2
    end = position + 1
    while end < len(text) and end - position < digits_max and text[end] in "01234567":
        end += 1
    return chr(int(text[position:end], 8)), end


def _begins_number(text: str, position: int) -> bool:
    if text[position] in "0123456789.":
        return True
    following = text[position + 1 : position + 2]
    return text[position] == "-" and following != "" and following in "0123456789."


def _end_of(text: str, position: int, *, number: bool) -> int:
    while position < len(text) and (
        text[position] in "0123456789." if number else _in_word(text[position])
    ):
        position += 1
    return position


def _in_word(character: str) -> bool:
    ascii_word = character.isascii() and (character.isalnum() or character in "._-$")
    return ascii_word or ord(character) >= 0xA0
