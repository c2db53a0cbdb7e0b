"""Finds, loads and binds the files of `models/` and `instances/`."""
