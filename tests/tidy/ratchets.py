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
    "cli": 11,
    "log": 2,
    "testing": 6,
}

# Docstrings of functions that do not begin with a verb, by room.
VERBLESS_DOCSTRINGS_LEFT: dict[str, int] = {}

# Words in the last column of docs/glossary.md, in names and in prose, by room.
GLOSSARY_WORDS_LEFT = {
    ".": 2,
    "broker": 132,
    "bulk": 7,
    "cli": 104,
    "client": 283,
    "config": 7,
    "log": 45,
    "node": 2,
    "observe": 6,
    "raft": 3,
    "retry": 24,
    "spark": 41,
    "streams": 43,
    "testing": 33,
    "wire": 9,
    "worker": 4,
}

# Names of classes and type aliases with more than one definition, and how many each has.
HOMONYMS_LEFT = {
    "AclEntry": 2,
    "Answer": 2,
    "Begin": 2,
    "Binary": 2,
    "Buffer": 2,
    "Check": 2,
    "Clock": 2,
    "Codes": 2,
    "Column": 2,
    "Decoder": 2,
    "Done": 3,
    "Ended": 3,
    "Filter": 2,
    "GroupOption": 3,
    "Groups": 3,
    "Handler": 3,
    "Headers": 4,
    "HeadersOption": 2,
    "Isolation": 2,
    "Job": 2,
    "Json": 3,
    "Names": 2,
    "NullMarkerOption": 2,
    "OffsetReset": 2,
    "Part": 3,
    "Pause": 2,
    "Place": 2,
    "Position": 2,
    "RawRecord": 2,
    "Reader": 2,
    "Reply": 2,
    "Row": 2,
    "Rows": 2,
    "Segment": 2,
    "SettingValue": 2,
    "Show": 2,
    "Shown": 2,
    "Slot": 2,
    "Step": 2,
    "Subscription": 2,
    "Target": 3,
    "Ticket": 2,
    "Topics": 3,
    "Wait": 3,
    "Write": 2,
}

# Rooms with more than one settings.py.
SETTINGS_TWICE_LEFT: list[str] = []

# Test modules that others import as a library.
IMPORTED_TESTS_LEFT: list[str] = []
