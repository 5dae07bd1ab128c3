"""The output modes that a topic cannot take, and the text with the alternative.

Spark rejects mode update for every sink in Python, with the first batch and before it calls the
sink. So the mode is read from a started query.
"""

from typing import Any

NAME = "penstock"
APPEND = "Append"  # as Java writes it

WRITE_BATCH = (
    "a topic is only appended to: output modes update and complete are written batch by batch, as "
    "in df.writeStream.outputMode(...).foreachBatch(lambda batch, batch_id: "
    'penstock.spark.write_batch(batch, batch_id, sink_id="...", options={...}))'
)


def rejected_mode(query: Any) -> str | None:
    """Return the output mode of Java's query if its sink is a topic and takes no such mode."""
    execution = query.streamingQuery()
    sink = execution.sink()
    # Other sinks may have no name: those of foreachBatch raise.
    if sink.getClass().getSimpleName() != "PythonTable" or sink.name().lower() != NAME:
        return None
    mode = execution.outputMode().toString()
    return None if mode == APPEND else mode.lower()
