"""The passes of lowering. Each keeps the feasible set."""
