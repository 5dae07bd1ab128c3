"""Checks whether a text is a regular expression of java.util.regex.

Java's own constructs are translated, and Python's parser decides. The result never matches any
text.
"""

import re
import warnings

_JAVA_ONLY = (
    (r"\\Q.*?(?:\\E|\Z)", "x"),
    (r"\\[pP](?:\{\^?\w+(?:=\w+)?\}|\w)", r"\\w"),
    (r"\\x\{[0-9A-Fa-f]+\}|\\N\{[^}]+\}|\\k<\w+>|\\c.|\\0[0-7]+", "x"),
    (r"\\[hHvVRGXezZ]", r"\\w"),
    (r"\(\?<[A-Za-z][A-Za-z0-9]*>", "("),
    (r"\(\?<([=!])", r"(?\1"),  # Java allows a lookbehind of any bounded length
    (r"\(\?[idmsuxU]*(?:-[idmsuxU]+)?\)", ""),
    (r"\(\?[idmsuxU]*-?[idmsuxU]*:", "(?:"),
)


def is_pattern(text: str) -> bool:
    """Return whether Java would compile the text."""
    for construct, same in _JAVA_ONLY:
        text = re.sub(construct, same, text, flags=re.DOTALL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # nested sets differ in Java
        try:
            re.compile(text)
        except (re.error, OverflowError, RecursionError):
            return False
    return True
