"""The shell of a node: connections in, handlers, waiting room, replies out."""
