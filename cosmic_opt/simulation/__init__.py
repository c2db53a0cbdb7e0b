"""Time: how long collectives and training steps take on a given design."""
