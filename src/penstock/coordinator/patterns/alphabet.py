"""The characters of names, and sets of them as bits of a number.

Topics have 65 of them. Transactional ids may have any. All characters beyond ASCII count as one,
and an expression that names one of those matches none.
"""

import string
import unicodedata
from typing import Final

OTHER: Final = "\ufffd"  # stands for every character that is not named below
_ASCII: Final = string.ascii_letters + string.digits + string.punctuation + " "
CHARACTERS: Final = _ASCII + OTHER
EVERY: Final = (1 << len(CHARACTERS)) - 1
BIT: Final = {character: 1 << index for index, character in enumerate(CHARACTERS)}
WORD_CHARACTERS: Final = frozenset(string.ascii_letters + string.digits + "_")

# Regardless of case, RE2 takes the long s for an s and the sign of Kelvin for a k.
_FOLDED_BESIDES: Final = {"s": "\u017f", "k": "\u212a"}

_CASES: Final = {
    character: tuple(
        {character, character.lower(), character.upper()}
        | set(_FOLDED_BESIDES.get(character.lower(), ""))
    )
    for character in CHARACTERS
}


def _set_of(characters: str) -> int:
    return sum(BIT[character] for character in characters if character in BIT)


_DIGITS: Final = _set_of(string.digits)
_WORD: Final = _set_of(string.ascii_letters + string.digits + "_")

PERL_CLASSES: Final = {
    "d": _DIGITS,
    "D": EVERY & ~_DIGITS,
    "s": BIT[" "],
    "S": EVERY & ~BIT[" "],
    "w": _WORD,
    "W": EVERY & ~_WORD,
}

POSIX_CLASSES: Final = {
    "alnum": _set_of(string.ascii_letters + string.digits),
    "alpha": _set_of(string.ascii_letters),
    "ascii": _set_of(_ASCII),
    "blank": BIT[" "],
    "cntrl": 0,
    "digit": _DIGITS,
    "graph": _set_of(_ASCII) & ~BIT[" "],
    "lower": _set_of(string.ascii_lowercase),
    "print": _set_of(_ASCII),
    "punct": _set_of(string.punctuation),
    "space": BIT[" "],
    "upper": _set_of(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": _set_of(string.hexdigits),
}

_CATEGORIES: Final = (
    *("C", "Cc", "Cf", "Co", "Cs"),
    *("L", "Ll", "Lm", "Lo", "Lt", "Lu"),
    *("M", "Mc", "Me", "Mn"),
    *("N", "Nd", "Nl", "No"),
    *("P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps"),
    *("S", "Sc", "Sk", "Sm", "So"),
    *("Z", "Zl", "Zp", "Zs"),
)
# Of the scripts only Latin and Common have characters that a topic's name may have.
_OTHER_SCRIPTS: Final = (
    *("Arabic", "Armenian", "Bengali", "Bopomofo", "Braille", "Cherokee", "Coptic", "Cyrillic"),
    *("Devanagari", "Ethiopic", "Georgian", "Greek", "Gujarati", "Gurmukhi", "Han", "Hangul"),
    *("Hebrew", "Hiragana", "Inherited", "Kannada", "Katakana", "Khmer", "Lao", "Malayalam"),
    *("Mongolian", "Myanmar", "Oriya", "Runic", "Sinhala", "Syriac", "Tamil", "Telugu", "Thaana"),
    *("Thai", "Tibetan"),
)

UNICODE_CLASSES: Final = {
    "Any": EVERY,
    "Latin": _set_of(string.ascii_letters),
    "Common": _set_of(string.digits + string.punctuation + " "),
    **dict.fromkeys(_OTHER_SCRIPTS, 0),
    **{
        name: _set_of(
            "".join(each for each in _ASCII if unicodedata.category(each).startswith(name))
        )
        for name in _CATEGORIES
    },
}


def between(low: str, high: str, *, any_case: bool) -> int:
    """Return the characters of a range, both ends included."""
    if not any_case:
        return sum(bit for character, bit in BIT.items() if low <= character <= high)
    return sum(
        bit
        for character, bit in BIT.items()
        if any(low <= twin <= high for twin in _CASES[character])
    )
