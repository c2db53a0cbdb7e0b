"""OPTIMISE: regions with bounds, exact branch and bound, agents, and the proof that nothing better exists."""
