"""Bytes to typed messages and back.  Pure: no file, no socket, no clock.

`messages/` and `records/` hold the schemas as typed classes, `codec` turns them into code, `frame`
puts headers around requests and responses, `apis` lists the APIs.
"""
