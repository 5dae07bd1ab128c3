"""An order stream, enriched and counted per minute. `make demo` runs it."""
