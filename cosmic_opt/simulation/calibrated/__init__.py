"""Predictions that measured clusters confirm: kernels, collectives and software stacks put together."""
