"""A broker that misbehaves on request: it fails, waits, is silent or disconnects, per API.

actions.py has the actions and the request that a test sees, taps.py chooses the interception,
connection.py acts on the node's loop, error_answers.py and broker_answers.py build error responses.
"""
