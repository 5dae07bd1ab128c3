"""A broker that misbehaves on request: it fails, waits, is silent or hangs up, API by API.

actions.py says what it may do and what it is shown, taps.py who decides, connection.py does it on
the node's loop, error_answers.py and broker_answers.py put an error where an API has it.
"""
