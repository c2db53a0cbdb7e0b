"""SOLVE: backends that answer questions about a lowered model."""
