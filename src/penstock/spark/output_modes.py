"""The output modes that a topic cannot take, and the text with the alternative."""

# Spark's text: Spark rejects this mode for every sink in Python, before it calls the sink.
UPDATE_REFUSED = "penstock does not support Update mode"

WRITE_BATCH = (
    "a topic is only appended to: output modes update and complete are written batch by batch, as "
    "in df.writeStream.outputMode(...).foreachBatch(lambda batch, batch_id: "
    'penstock.spark.write_batch(batch, batch_id, sink_id="...", options={...}))'
)
