"""LOWER: a small intermediate form (finite columns, four kinds of constraint) that every engine reads."""
