"""Why a query stopped, in one line: Spark's own text has the whole plan and three tracebacks."""

import re

_ERROR = re.compile(
    r"^([A-Za-z_][\w.]*(?:Error|Exception|Failed|Fenced|Exit)\b.*"
    r"|(?:[a-z_]\w*\.)+[A-Z]\w*: .*)$"  # of any name, as Python writes it: package.module.Name
)
# Of what Spark wraps around an error, the lines that only say that there was one.
_WRAPPERS = ("An exception was", "PythonException", "Py4J", "StreamingQueryException", "SQLSTATE")


def reason_of(problem: BaseException) -> str:
    """The innermost error that the text names, else its first line."""
    lines = str(problem).partition("=== Streaming Query ===")[0].splitlines()
    found = [
        match[1]
        for line in lines
        if (match := _ERROR.match(line.strip())) and not any(each in line for each in _WRAPPERS)
    ]
    if found:
        return found[-1]
    for line in lines:
        if line.strip():
            return line.strip()
    return type(problem).__name__
