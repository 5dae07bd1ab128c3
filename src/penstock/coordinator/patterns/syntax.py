"""From the text of a regular expression to a tree, by RE2's rules.

As in RE2, repetitions of repetitions, back-references and look-around are errors.
"""

import string
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from penstock.coordinator.patterns import alphabet
from penstock.errors import InvalidRegularExpression

LENGTH_MAX: Final = 4096
NESTING_MAX: Final = 100
REPEAT_MAX: Final = 1000
UNLIMITED: Final = -1

_ESCAPED: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL_DIGITS_MAX: Final = 3
_CODE_POINT_MAX: Final = 0x10FFFF


@dataclass(frozen=True, slots=True)
class Characters:
    """One character out of a set."""

    bits: int


@dataclass(frozen=True, slots=True)
class PositionAssertion:
    """A position without a character: the beginning, the end, an edge of a word or none."""

    where: Literal["begin", "end", "edge", "inside"]


@dataclass(frozen=True, slots=True)
class Concatenation:
    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    options: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    part: "Node"
    least: int
    most: int  # or UNLIMITED


Node: TypeAlias = Characters | PositionAssertion | Concatenation | Alternation | Repeat


def parse(text: str) -> Node:
    """Return the tree. Raise InvalidRegularExpression with the reason for an illegal text."""
    if len(text) > LENGTH_MAX:
        raise InvalidRegularExpression(
            f"a regular expression of {len(text)} characters; at most {LENGTH_MAX} are allowed"
        )
    return _Parser(text).whole()


class _Parser:
    """One pass over the text, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._any_case = False
        self._names: list[str] = []

    def whole(self) -> Node:
        tree = self._choice()
        if self._at < len(self._text):
            raise self._wrong("a closing parenthesis that opens nowhere")
        return tree

    def _wrong(self, what: str) -> InvalidRegularExpression:
        return InvalidRegularExpression(
            f"{self._text!r} is not a regular expression: {what} at position {self._at}"
        )

    def _peek(self, size: int = 1) -> str:
        return self._text[self._at : self._at + size]

    def _take(self, expected: str) -> bool:
        if self._text.startswith(expected, self._at):
            self._at += len(expected)
            return True
        return False

    def _next(self) -> str:
        character = self._peek()
        if not character:
            raise self._wrong("an end too early")
        self._at += 1
        return character

    # Structure

    def _choice(self) -> Node:
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Alternation(tuple(options))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._at < len(self._text) and self._peek() not in "|)":
            if self._take("\\Q"):
                parts.extend(self._quoted())
                continue
            part = self._part()
            if part is not None:
                parts.append(part)
            repeat = self._repetition()
            if repeat is not None:
                if not parts:
                    raise self._wrong("a repetition of nothing")
                parts[-1] = Repeat(parts[-1], *repeat)
                if self._repetition() is not None:
                    raise self._wrong("a repetition of a repetition")
        return parts[0] if len(parts) == 1 else Concatenation(tuple(parts))

    def _part(self) -> Node | None:
        """Return one part that may be repeated; None for flags and for a repetition itself."""
        match self._peek():
            case "(":
                return self._group()
            case "[":
                return Characters(self._character_class())
            case ".":
                self._at += 1
                return Characters(alphabet.EVERY)
            case "^":
                self._at += 1
                return PositionAssertion("begin")
            case "$":
                self._at += 1
                return PositionAssertion("end")
            case "\\":
                return self._escaped_part()
            case "*" | "+" | "?":
                return None
            case "{" if self._counted() is not None:
                return None
            case _:
                return self._literal(self._next())

    def _literal(self, character: str) -> Characters:
        return Characters(alphabet.between(character, character, any_case=self._any_case))

    def _quoted(self) -> list[Node]:
        text, _, _ = self._text[self._at :].partition("\\E")
        self._at += len(text)
        self._take("\\E")
        return [self._literal(character) for character in text]

    def _group(self) -> Node | None:
        self._at += 1
        outer_case = self._any_case
        if self._take("?P<") or self._take("?<"):
            self._group_name()
        elif self._take("?"):
            if not self._flags():
                return None  # (?i) holds to the end of the group around it
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise self._wrong(f"more than {NESTING_MAX} groups inside each other")
        inner = self._choice()
        if not self._take(")"):
            raise self._wrong("a missing closing parenthesis")
        self._depth -= 1
        self._any_case = outer_case
        return inner

    def _group_name(self) -> None:
        name, closed, _ = self._text[self._at :].partition(">")
        legal = name and all(each in alphabet.WORD_CHARACTERS for each in name)
        if not closed or not legal or name in self._names:
            raise self._wrong("a bad name of a group")
        self._names.append(name)
        self._at += len(name) + 1

    def _flags(self) -> bool:
        """Read the flags, and return whether a group follows them."""
        value, given = True, False
        any_case = self._any_case
        while True:
            match self._next():
                case "i":
                    any_case, given = value, True
                case "m" | "s" | "U":
                    given = True  # about lines and laziness: all one to the name of a topic
                case "-" if value:
                    value, given = False, False
                case ":" | ")" as end if value or given:
                    self._any_case = any_case
                    return end == ":"
                case _:
                    raise self._wrong("an unknown flag")

    # Repetition

    def _repetition(self) -> tuple[int, int] | None:
        counted: tuple[int, int] | None = None
        if self._take("*"):
            counted = (0, UNLIMITED)
        elif self._take("+"):
            counted = (1, UNLIMITED)
        elif self._take("?"):
            counted = (0, 1)
        elif self._peek() == "{":
            found = self._counted()
            if found is not None:
                least, most, self._at = found
                if max(least, most) > REPEAT_MAX or UNLIMITED < most < least:
                    raise self._wrong(f"a bad count; at most {REPEAT_MAX} are allowed")
                counted = (least, most)
        if counted is not None:
            self._take("?")  # as few as possible: all one to a match of the whole name
        return counted

    def _counted(self) -> tuple[int, int, int] | None:
        """Return the bounds of {2}, {2,} or {2,5} and their end; None for any other brace."""
        inside, closed, _ = self._text[self._at + 1 :].partition("}")
        low, comma, high = inside.partition(",")
        if not closed or not _is_count(low) or (high and not _is_count(high)):
            return None
        end = self._at + len(inside) + 2
        if not comma:
            return int(low), int(low), end
        return int(low), int(high) if high else UNLIMITED, end

    # Characters

    def _escaped_part(self) -> Node:
        perl = self._class_escape()
        if perl is not None:
            return Characters(perl)
        match self._peek(2)[1:]:
            case "A":
                assertion = PositionAssertion("begin")
            case "z":
                assertion = PositionAssertion("end")
            case "b":
                assertion = PositionAssertion("edge")
            case "B":
                assertion = PositionAssertion("inside")
            case _:
                return self._literal(self._escaped_character())
        self._at += 2
        return assertion

    def _class_escape(self) -> int | None:
        r"""Return the characters of \d and its like, \pN or \p{Latin}; None, with no text consumed,
        otherwise."""
        kind = self._peek(2)[1:]
        if kind and kind in alphabet.PERL_CLASSES:
            self._at += 2
            return alphabet.PERL_CLASSES[kind]
        if not kind or kind not in "pP":
            return None
        self._at += 2
        name = self._next()
        negated = kind == "P"
        if name == "{":
            name, closed, _ = self._text[self._at :].partition("}")
            if not closed:
                raise self._wrong("a missing closing brace")
            self._at += len(name) + 1
            if name.startswith("^"):
                name, negated = name[1:], not negated
        bits = alphabet.UNICODE_CLASSES.get(name)
        if bits is None:
            raise self._wrong(f"an unknown class of characters, {name}")
        bits = self._folded(bits)
        return alphabet.EVERY & ~bits if negated else bits

    def _folded(self, bits: int) -> int:
        if not self._any_case:
            return bits
        for character, bit in alphabet.BIT.items():
            if bits & bit:
                bits |= alphabet.between(character, character, any_case=True)
        return bits

    def _escaped_character(self) -> str:
        self._at += 1
        character = self._next()
        if character in _ESCAPED:
            return _ESCAPED[character]
        if character == "x":
            return self._hexadecimal()
        if character in string.octdigits:
            if character != "0" and self._peek() not in tuple(string.octdigits):
                raise self._wrong("a reference back, which RE2 does not have")
            digits = character
            while len(digits) < _OCTAL_DIGITS_MAX and self._peek() in tuple(string.octdigits):
                digits += self._next()
            return chr(int(digits, 8))
        if not (character.isascii() and character.isalnum()):
            return character
        raise self._wrong(f"an unknown escape, \\{character}")

    def _hexadecimal(self) -> str:
        if self._take("{"):
            digits, closed, _ = self._text[self._at :].partition("}")
            whole = bool(digits and closed)
            self._at += len(digits) + 1
        else:
            digits = self._peek(2)
            whole = len(digits) == 2
            self._at += 2
        if not whole or any(each not in string.hexdigits for each in digits):
            raise self._wrong("a bad hexadecimal number")
        value = int(digits, 16)
        if value > _CODE_POINT_MAX:
            raise self._wrong("a character that does not exist")
        return chr(value)

    def _character_class(self) -> int:
        self._at += 1
        negated = self._take("^")
        bits, first = 0, True
        while first or self._peek() != "]":
            if self._peek(2) == "[:":
                bits |= self._posix_class()
            else:
                bits |= self._class_member()
            first = False
        self._at += 1
        return alphabet.EVERY & ~bits if negated else bits

    def _class_member(self) -> int:
        if self._peek() == "\\":
            perl = self._class_escape()
            if perl is not None:
                return perl
        low = high = self._class_character()
        if self._peek() == "-" and self._peek(2) not in ("-", "-]"):
            self._at += 1
            high = self._class_character()
            if high < low:
                raise self._wrong("a range that runs backwards")
        return alphabet.between(low, high, any_case=self._any_case)

    def _class_character(self) -> str:
        if not self._peek():
            raise self._wrong("a missing closing bracket")
        return self._escaped_character() if self._peek() == "\\" else self._next()

    def _posix_class(self) -> int:
        name, closed, _ = self._text[self._at + 2 :].partition(":]")
        if not closed:
            return self._class_member()  # just a bracket
        bits = alphabet.POSIX_CLASSES.get(name.removeprefix("^"))
        if bits is None:
            raise self._wrong(f"an unknown class of characters, {name}")
        self._at += len(name) + 4
        bits = self._folded(bits)
        return alphabet.EVERY & ~bits if name.startswith("^") else bits


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and (text == "0" or not text.startswith("0"))
