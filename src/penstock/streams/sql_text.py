"""Spark's SQL as text, for expressions of many parts: of columns, each part is a call to Java."""


def quoted(text: str) -> str:
    """A string literal."""
    inside = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{inside}'"


def named(*path: str) -> str:
    """A column, or a field of it, whatever its name."""
    return ".".join("`" + each.replace("`", "``") + "`" for each in path)


def case(condition: str, then: str, otherwise: str = "NULL") -> str:
    return f"CASE WHEN {condition} THEN {then} ELSE {otherwise} END"


def structure(fields: dict[str, str]) -> str:
    return "named_struct(" + ", ".join(f"{quoted(name)}, {of}" for name, of in fields.items()) + ")"
