"""The output modes that a topic cannot take, and the text with the alternative.

Spark rejects mode update for every sink in Python, with the first batch and before it calls the
sink. So the mode is read from the writer before a start, or else from the started query.
"""

from typing import Any

from py4j.protocol import Py4JError

NAME = "penstock"
APPEND = "Append"  # as Java writes it

WRITE_BATCH = (
    "a topic is only appended to: output modes update and complete are written batch by batch, as "
    "in df.writeStream.outputMode(...).foreachBatch(lambda batch, batch_id: "
    'penstock.spark.write_batch(batch, batch_id, sink_id="...", options={...}))'
)


def rejected_mode_of_writer(writer: Any) -> str | None:
    """Return the output mode of a DataStreamWriter if its sink is a topic and takes no such mode.

    Return None where the mode cannot be read: with Spark Connect, or if Spark renames its fields.
    """
    java_writer = getattr(writer, "_jwrite", None)
    if java_writer is None:
        return None
    try:
        sink, mode = _field(java_writer, "source"), _field(java_writer, "outputMode")
    except Py4JError:
        return None
    if str(sink).lower() != NAME or mode.toString() == APPEND:
        return None
    return str(mode.toString()).lower()


def _field(java_writer: Any, name: str) -> Any:
    # Java's writer has no public method that returns its settings.
    field = java_writer.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(java_writer)


def rejected_mode(query: Any) -> str | None:
    """Return the output mode of Java's query if its sink is a topic and takes no such mode."""
    execution = query.streamingQuery()
    sink = execution.sink()
    # Other sinks may have no name: those of foreachBatch raise.
    if sink.getClass().getSimpleName() != "PythonTable" or sink.name().lower() != NAME:
        return None
    mode = execution.outputMode().toString()
    return None if mode == APPEND else mode.lower()
