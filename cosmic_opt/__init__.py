"""cosmic-opt: a constraint-solver-based co-design optimizer for distributed machine learning."""

__version__ = "0.1.0"
