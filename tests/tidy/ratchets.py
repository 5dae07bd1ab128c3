"""The exceptions to the tidy rules that are left: each list only gets shorter."""

from collections.abc import Mapping


def compare(found: Mapping[str, list[str]], left: Mapping[str, int], advice: str) -> list[str]:
    """Return a message for each room whose exceptions are more or fewer than the list allows."""
    trouble = []
    for room in sorted(found.keys() | left.keys()):
        count, allowed = len(found.get(room, [])), left.get(room, 0)
        if count > allowed:
            shown = "\n  ".join(found[room])
            trouble.append(f"{room} has {count}, {allowed} were left: {advice}\n  {shown}")
        elif count < allowed:
            trouble.append(f"{room} has {count}, {allowed} were left: lower the number")
    return trouble


# Sentences with a pronoun as subject, by room of src/penstock; "." is the files in no folder.
PRONOUNS_LEFT = {
    ".": 2,
    "bulk": 3,
    "cli": 12,
    "log": 2,
    "testing": 10,
}

# Docstrings of functions that do not begin with a verb, by room.
VERBLESS_DOCSTRINGS_LEFT = {
    "broker": 11,
    "cli": 3,
    "client": 49,
    "config": 13,
    "observe": 1,
    "real": 2,
    "retry": 1,
    "streams": 9,
    "testing": 20,
}

# Class names with more than one definition, and how many each has.
HOMONYMS_LEFT: dict[str, int] = {}

# Rooms with more than one settings.py.
SETTINGS_TWICE_LEFT: list[str] = []

# Test modules that others import as a library.
IMPORTED_TESTS_LEFT: list[str] = []
