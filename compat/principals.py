"""Principals of certificates beside Java's and Kafka's: random subjects, random mapping rules."""

import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.servers import java_class
from compat.report import Report
from penstock.security.distinguished_name import name_text
from penstock.security.mapping_rules import MappingRules, NoRuleFits

SEED = 4301
SUBJECTS, MAPPINGS = 3_000, 6_000
JAVA_SECONDS_MAX = 120
SOURCE = Path(__file__).with_name("PrincipalNames.java")
ATTRIBUTES = (
    *("2.5.4.3", "2.5.4.4", "2.5.4.5", "2.5.4.6", "2.5.4.7", "2.5.4.8", "2.5.4.9", "2.5.4.10"),
    *("2.5.4.11", "2.5.4.12", "2.5.4.42", "1.2.840.113549.1.9.1", "1.3.6.1.4.1.99999.1"),
    *("0.9.2342.19200300.100.1.1", "0.9.2342.19200300.100.1.25"),
)
CHARACTERS = " abcXYZ019,=+<>#;\"\\\r\n\t\0/:*äß中😀.-'()?"
UTF8, BMP, ASCII_TAGS, OTHER_TAGS = 0x0C, 0x1E, (0x13, 0x14, 0x16, 0x1B), (0x03, 0x04)
PATTERNS = (
    *("^CN=(.*?),OU=(.*?)$", "CN=(.*)", ".*", "^CN=([^,]+).*$", "(CN)=(a|b)(.*)", "^cn=(.*)$"),
    *("CN=a", "(?i)^cn=(.*)$", "(C)(N)(=)(.*?)(,|$)(.*)", "x*", "CN=(\\\\w+)(,.*)?", "^.*$"),
    *("(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)(k)", "[^/]*", "CN\\=(.*)", "CN=(.*?)/x"),
)
REPLACEMENTS = (
    *("$1", "$1@$2", "x", "", "$10", "$11$1", "\\$1", "a$", "$0", "${1}", "$1-\\/-$2", "\\\\"),
    *("$3", "b$9", "$1$", "\\a", "$4$5"),
)
NAMES = ("CN=a", "CN=a,OU=b", "CN=abc,OU=x,O=y", "O=z", "", "abcdefghijk", "CN=a\\,b", "cn=Q")


def check_principals(report: Report) -> None:
    chance = random.Random(SEED)
    subjects = [_subject(chance) for _ in range(SUBJECTS)]
    mappings = [(_rules(chance), chance.choice(NAMES)) for _ in range(MAPPINGS)]
    asked = [f"subject {each.hex()}" for each in subjects]
    asked += [f"rules {rules.encode().hex()} {name.encode().hex()}" for rules, name in mappings]
    answers = _ask_java(asked)
    ours = [f"={name_text(each)}" for each in subjects]
    wrong = [
        f"{each.hex()}: {theirs!r}, not {own!r}"
        for each, own, theirs in zip(subjects, ours, answers, strict=False)
        if own != theirs
    ]
    report.expect(not wrong, f"{SUBJECTS} subjects are written as by Java", "\n".join(wrong[:3]))
    wrong = [
        f"{rules!r} of {name!r}: {theirs!r}, not {own!r}"
        for (rules, name), theirs in zip(mappings, answers[SUBJECTS:], strict=True)
        if (own := _mapped(rules, name)) != theirs
    ]
    report.expect(not wrong, f"{MAPPINGS} names are mapped as by Kafka", "\n".join(wrong[:3]))


def _ask_java(lines: Sequence[str]) -> list[str]:
    done = subprocess.run(
        java_class(str(SOURCE)),
        input="".join(f"{each}\n" for each in lines),
        capture_output=True,
        text=True,
        timeout=JAVA_SECONDS_MAX,
        check=True,
    )
    return [bytes.fromhex(each).decode() for each in done.stdout.splitlines()]


def _mapped(rules: str, name: str) -> str:
    try:
        return f"={MappingRules.parse(rules).apply(name)}"
    except NoRuleFits:
        return "?"
    except ValueError:
        return "!"


def _rules(chance: random.Random) -> str:
    rules = []
    for _ in range(chance.choice((1, 1, 2, 3))):
        if chance.random() < 0.15:
            rules.append(chance.choice(("DEFAULT", "default", " DEFAULT ", "", "x")))
            continue
        end = chance.choice(("", "L", "U") if chance.random() < 0.9 else ("LU", "X", " "))
        rules.append(f"RULE:{chance.choice(PATTERNS)}/{chance.choice(REPLACEMENTS)}/{end}")
    return chance.choice((", ", ",", " , ")).join(rules)


def _subject(chance: random.Random) -> bytes:
    parts = b"".join(
        _der(0x31, b"".join(_attribute(chance) for _ in range(chance.choice((1, 1, 1, 2)))))
        for _ in range(chance.randrange(4))
    )
    return _der(0x30, parts)


def _attribute(chance: random.Random) -> bytes:
    text = "".join(chance.choice(CHARACTERS) for _ in range(chance.randrange(9)))
    tag = chance.choice((UTF8, UTF8, BMP, *ASCII_TAGS, *OTHER_TAGS))
    if tag == BMP:
        value = text.encode("utf-16-be")
    elif tag in ASCII_TAGS:
        value = text.encode("ascii", errors="ignore")
    else:
        value = text.encode()
    return _der(0x30, _oid(chance.choice(ATTRIBUTES)) + _der(tag, value))


def _oid(text: str) -> bytes:
    first, second, *rest = map(int, text.split("."))
    content = b""
    for number in (40 * first + second, *rest):
        digits = [number & 0x7F]
        while number := number >> 7:
            digits.insert(0, number & 0x7F | 0x80)
        content += bytes(digits)
    return _der(0x06, content)


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 0x80 else b"\x82" + size.to_bytes(2)
    return bytes([tag]) + length + content
