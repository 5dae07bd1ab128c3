"""A service of functions that handle the records of topics: `penstock worker app:handlers`.

app.py       Worker: functions by topic, and their life
calling.py   how a function is called: with a value or a record, in the loop or in a thread
tracing.py   OpenTelemetry's context in headers
metrics.py   what is counted; health.py: a small HTTP server that tells
serving.py   the process: signals, the HTTP server, the end
"""

from penstock.worker.app import Worker

__all__ = ["Worker"]
