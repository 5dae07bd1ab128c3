"""The shell of a node: connections in, handlers, parked requests, replies out."""
