"""The same revenue as a declarative pipeline: what there should be, not when to run it."""
