"""A service of functions that handle the records of topics: `penstock worker app:handlers`.

app.py            Worker: functions by topic, run and stop
function_call.py  calls a function with a value or a record, in the loop or on a thread
tracing.py        OpenTelemetry's context in headers
metrics.py        the counts of a worker; health.py: an HTTP server for these
process.py        the process: signals, the HTTP server, the end
"""

from penstock.worker.app import Worker

__all__ = ["Worker"]
