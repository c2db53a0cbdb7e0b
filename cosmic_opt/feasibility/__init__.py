"""ASK: how many feasible designs there are, which, and a fair sample of them."""
