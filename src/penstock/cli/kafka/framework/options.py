"""Parser of Kafka's long options, compatible with joptsimple 5, without abbreviations: pure.

`--topic x`, `--topic=x` and `-topic x` are equal. `--topic=` takes the next argument, even one that
looks like an option. Options may be repeated. `--` ends the options. Other arguments are kept and
ignored.
"""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from penstock.cli.arguments.number_limits import INT32_MAX, INT64_MAX

N = TypeVar("N", int, float)

HELP_WIDTH = 80
HELP_LEFT = 40
INT_LAST, LONG_LAST = INT32_MAX, INT64_MAX


class OptionRejected(Exception):
    """The options are invalid; the message is joptsimple's, because scripts compare it."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option; `argument` describes its argument (`String: topic`), empty for a switch."""

    name: str
    help: str
    argument: str = ""
    default: str | None = None
    optional: bool = False  # the argument may be left out
    separator: str = ""  # between several values in one argument
    only_with: tuple[str, ...] = ()  # rejected unless one of these is given, too

    def __str__(self) -> str:
        return f"[{self.name}]"


HELP = Option("help", "Print this and end.")
VERSION = Option("version", "Print which Kafka this stands for, and end.")


class GivenOptions:
    """The given options; `order` has their names in the order of the command line."""

    def __init__(self, options: dict[str, Option], arguments: Sequence[str]) -> None:
        self._options = options
        self.arguments = tuple(arguments)
        self._values: dict[str, list[str]] = {}
        self.order: list[str] = []
        self.rest: list[str] = []

    def add(self, name: str, value: str | None) -> None:
        self.order.append(name)
        values = self._values.setdefault(name, [])
        if value is not None:
            separator = self._options[name].separator
            values += value.split(separator) if separator else [value]

    def has(self, name: str) -> bool:
        """Return whether the option was given; a default does not count."""
        assert name in self._options, f"--{name} is none of this command's options"
        return name in self._values

    def any_of(self, *names: str) -> bool:
        return any(self.has(name) for name in names)

    def texts(self, name: str) -> list[str]:
        """Return all values of the option, or its default."""
        assert name in self._options, f"--{name} is none of this command's options"
        default = self._options[name].default
        return self._values.get(name) or ([] if default is None else [default])

    def text(self, name: str) -> str | None:
        """Return the only value; None if there is none; raise OptionRejected for several."""
        values = self.texts(name)
        if len(values) > 1:
            raise OptionRejected(
                f"Found multiple arguments for option {name}, but you asked for only one"
            )
        return values[0] if values else None

    def required(self, name: str) -> str:
        """Return the value; raise OptionRejected if there is none."""
        value = self.text(name)
        if value is None:
            raise OptionRejected(f'Missing required argument "[{name}]"')
        return value

    def number(self, name: str, last: int = INT_LAST) -> int | None:
        """Return the value as a whole number of at most `last`."""
        return self._converted(name, lambda text: whole(text, last))

    def long(self, name: str) -> int | None:
        return self.number(name, LONG_LAST)

    def double(self, name: str) -> float | None:
        return self._converted(name, float)

    def _converted(self, name: str, convert: Callable[[str], N]) -> N | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            return convert(text)
        except ValueError:
            raise OptionRejected(f"Cannot parse argument '{text}' of option {name}") from None


def whole(text: str, last: int) -> int:
    """Parse digits with an optional sign; raise ValueError for others, or beyond `last`."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdecimal()):
        raise ValueError(text)
    value = int(text)
    if not -last - 1 <= value <= last:
        raise ValueError(text)
    return value


def parse(options: Sequence[Option], arguments: Sequence[str]) -> GivenOptions:
    """Parse arguments; raise OptionRejected for unknown, incomplete or excluded options."""
    by_name = {each.name: each for each in options}
    given = GivenOptions(by_name, arguments)
    waiting = list(reversed(arguments))
    while waiting:
        argument = waiting.pop()
        if argument == "--":
            given.rest += reversed(waiting)
            break
        if not _looks_like_an_option(argument):
            given.rest.append(argument)
            continue
        name, value = _named(by_name, argument)
        option = by_name[name]
        if not option.argument:
            given.add(name, None)
        elif value:
            given.add(name, value)
        elif option.optional:
            taken = bool(waiting) and not _looks_like_an_option(waiting[-1])
            given.add(name, waiting.pop() if taken else None)
        elif waiting:
            given.add(name, waiting.pop())
        else:
            raise OptionRejected(f"Option {name} requires an argument")
    _check_company(by_name, given)
    return given


def _looks_like_an_option(argument: str) -> bool:
    return argument.startswith("-") and argument != "-"


def _named(by_name: dict[str, Option], argument: str) -> tuple[str, str]:
    """Return name and value of an option; `-topic` is `--topic`, as no command has short names."""
    name, _, value = argument.lstrip("-").partition("=")
    if name not in by_name:
        unknown = name if argument.startswith("--") else name[:1]
        raise OptionRejected(f"{unknown} is not a recognized option")
    return name, value


def _check_company(by_name: dict[str, Option], given: GivenOptions) -> None:
    alone = [
        name
        for name in dict.fromkeys(given.order)
        if by_name[name].only_with and not given.any_of(*by_name[name].only_with)
    ]
    if alone and HELP.name not in given.order and VERSION.name not in given.order:
        raise OptionRejected(
            f"Option(s) [{', '.join(alone)}] are unavailable given other options on the command "
            "line"
        )


def help_text(options: Sequence[Option]) -> str:
    """Return the options in two columns, sorted by name."""
    lines = [f"{'Option':<{HELP_LEFT}}Description", f"{'------':<{HELP_LEFT}}-----------"]
    for option in sorted(options, key=lambda each: each.name):
        about = option.help
        if option.default is not None:
            about += f" (default: {option.default})"
        left = textwrap.wrap(
            _usage(option), HELP_LEFT - 2, subsequent_indent="  ", break_on_hyphens=False
        )
        right = textwrap.wrap(about, HELP_WIDTH - HELP_LEFT - 1)
        for at in range(max(len(left), len(right))):
            one = left[at] if at < len(left) else ""
            other = right[at] if at < len(right) else ""
            lines.append(f"{one:<{HELP_LEFT}}{other}".rstrip())
    return "\n".join(lines)


def _usage(option: Option) -> str:
    if not option.argument:
        return f"--{option.name}"
    kind, _, about = option.argument.partition(": ")
    shown = f"{kind}: {about}" if about else kind
    return f"--{option.name} [{shown}]" if option.optional else f"--{option.name} <{shown}>"
