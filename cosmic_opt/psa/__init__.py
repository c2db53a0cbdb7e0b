"""DECLARE: parameters, domains, rules and quantities, independent of how they are searched."""
