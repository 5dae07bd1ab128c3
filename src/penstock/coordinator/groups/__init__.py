"""Consumer groups, classic and new, and the offsets that they commit."""
