"""Replicated state machines: handle an event, append what it decided, reply once it is safe."""
