"""Explaining answers: validation against measured and reference numbers."""
