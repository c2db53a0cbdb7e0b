"""A second meaning of the rule language: a plain interpreter of the syntax tree, one design at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.expr import Aggregate, Index, Member, Name, Number, Operation, Syntax, Text

_PAIRS: Mapping[str, Callable[[int, int], int]] = {
    "//": lambda a, b: math.floor(Fraction(a, b)),
    "%": lambda a, b: a - b * math.floor(Fraction(a, b)),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<=": lambda a, b: int(a <= b),
    "<": lambda a, b: int(a < b),
    ">=": lambda a, b: int(a >= b),
    ">": lambda a, b: int(a > b),
}


class Interpreter:
    """Values of names by look-up; families and indices as lists and sizes; categories as text."""

    def __init__(self, values: Mapping[str, Value], families: Mapping[str, int], indices: Mapping[str, int]) -> None:
        self.values, self.families, self.indices = values, families, indices

    def meaning(self, syntax: Syntax, loop: Mapping[str, int]) -> Value:
        """Return the number, truth value or category that a tree denotes."""
        match syntax:
            case Number(value, _, _) | Text(value, _):
                return value
            case Name(name, _):
                return loop[name] if name in loop else self.values.get(name, name)
            case Index(name, indices, _):
                return self.values[f"{name}[{','.join(str(self.meaning(index, loop)) for index in indices)}]"]
            case Member(item, options, _):
                wanted = self.meaning(item, loop)
                return int(any(self.meaning(option, loop) == wanted for option in options))
            case Operation(operator, operands, _):
                return self.operation(operator, operands, loop)
            case Aggregate():
                return self.aggregate(syntax, loop)

    def number(self, syntax: Syntax, loop: Mapping[str, int]) -> int:
        value = self.meaning(syntax, loop)
        assert isinstance(value, int), (syntax, value)
        return value

    def operation(self, operator: str, operands: tuple[Syntax, ...], loop: Mapping[str, int]) -> int:
        if operator in ("==", "!="):
            same = self.meaning(operands[0], loop) == self.meaning(operands[1], loop)
            return int(same == (operator == "=="))
        parts = [self.number(operand, loop) for operand in operands]
        match operator:
            case "+":
                return sum(parts)
            case "*":
                return math.prod(parts)
            case "neg":
                return -parts[0]
            case "and":
                return int(all(parts))
            case "or":
                return int(any(parts))
            case "not":
                return int(not parts[0])
            case "implies":
                return int(parts[0] <= parts[1])
            case _:
                return _PAIRS[operator](parts[0], parts[1])

    def aggregate(self, syntax: Aggregate, loop: Mapping[str, int]) -> int:
        parts: list[int] = []
        for body in syntax.body:
            if isinstance(body, Name) and body.name in self.families and syntax.variable is None:
                parts += [self.number(Index(body.name, (Name(str(d), 0),), 0), {str(d): d}) for d in self.members(body)]
            elif syntax.variable is None:
                parts.append(self.number(body, loop))
        for d in range(self.indices[str(syntax.index)]) if syntax.variable else ():
            inner = {**loop, str(syntax.variable): d}
            if syntax.condition is None or self.meaning(syntax.condition, inner):
                parts.append(self.number(syntax.body[0], inner))
        kinds: Mapping[str, Callable[[list[int]], int]] = {
            "sum": sum,
            "product": math.prod,
            "min": min,
            "max": max,
            "count": sum,
            "all": lambda truths: int(all(truths)),
            "any": lambda truths: int(any(truths)),
        }
        return kinds[syntax.kind](parts)

    def members(self, family: Name) -> range:
        return range(self.families[family.name])
