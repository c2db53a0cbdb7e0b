"""Parse one rule into a syntax tree: a hand-written precedence-climbing parser over a small grammar.

rule     = or ["implies" rule]
or       = and {"or" and}            and  = not {"and" not}           not = ["not"] compare
compare  = sum {("==" | "!=" | "<=" | "<" | ">=" | ">") sum} | sum ["not"] "in" "{" sum {"," sum} "}"
sum      = term {("+" | "-") term}   term = unary {("*" | "//" | "%") unary}   unary = ["-"] atom
atom     = number [unit] | 'text' | name ["[" sum {"," sum} "]"] | "(" rule ")"
         | aggregate "(" rule ({"," rule} | "for" name "in" name ["if" rule]) ")"
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.psa.expr import AGGREGATES, Aggregate, Index, Member, Name, Number, Operation, Syntax, Text, children
from cosmic_opt.units import SYMBOLS, Unit, parse

KEYWORDS = frozenset({"and", "or", "not", "implies", "in", "for", "if", "true", "false"})
COMPARISONS = frozenset({"==", "!=", "<=", "<", ">=", ">"})
MAX_LENGTH = 4000
MAX_DEPTH = 40
MAX_HEIGHT = 100
"""Levels of a tree: what reads it later recurses once per level. A sum or product of many terms is one level."""

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<number>\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)
    |(?P<text>'[^']*'|"[^"]*")
    |(?P<name>[A-Za-z_][A-Za-z_0-9]*)
    |(?P<symbol>==|!=|<=|>=|//|[-+*%<>()\[\]{},])""",
    re.VERBOSE,
)
_UNIT = re.compile(r"\s*([A-Za-z]+(?:/s)?|\$)(?![A-Za-z_0-9(\[])")
FACTOR = "multiply the other terms instead: 2 * a <= b for a <= 0.5 * b"
_INSTEAD = {"=": "==", "&": "and", "|": "or", "!": "not", "/": "//", "&&": "and", "||": "or", "^": "*"}


@dataclass(frozen=True, slots=True)
class Token:
    """A lexeme: its kind (number, text, name, symbol, end), its text and its column in the rule."""

    kind: str
    text: str
    at: int
    number: Number | None = None


def parse_rule(text: str, where: Where | None = None) -> Syntax:
    """Return the syntax tree of `text`.

    Raises:
        SpecError: not a rule; the message shows the rule with a mark under the place.
    """
    if len(text) > MAX_LENGTH:
        raise SpecError(
            f"a rule of {len(text):,} characters",
            where=where,
            hint=f"at most {MAX_LENGTH:,}; split it at 'and'",
        )
    return _Parser(text, where).rule_to_end()


def error_at(text: str, at: int, message: str, where: Where | None, hint: str | None = None) -> SpecError:
    """Return an error that shows the rule and marks column `at`."""
    start = max(0, at - 60)
    shown = text[start : at + 60].replace("\n", " ")
    return SpecError(f"{message}\n    {shown}\n    {' ' * (at - start)}^", where=where, hint=hint)


class _Parser:
    def __init__(self, text: str, where: Where | None) -> None:
        self.text = text
        self.where = where
        self.tokens = list(self._lex())
        self.position = 0
        self.depth = 0

    def _lex(self) -> list[Token]:
        tokens: list[Token] = []
        at = 0
        while at < len(self.text):
            match = _TOKEN.match(self.text, at)
            if match is None:
                bad = self.text[at : at + 2] if self.text[at : at + 2] in _INSTEAD else self.text[at]
                hint = f"write {_INSTEAD[bad]!r}" if bad in _INSTEAD else None
                raise error_at(self.text, at, f"{bad!r} does not belong in a rule", self.where, hint)
            kind = match.lastgroup or "space"
            end = match.end()
            if kind == "number":
                number, end = self._number(match.group(), at, end)
                tokens.append(Token(kind, self.text[at:end], at, number))
            elif kind != "space":
                tokens.append(Token(kind, match.group(), at))
            at = end
        tokens.append(Token("end", "", len(self.text)))
        return tokens

    def _number(self, digits: str, at: int, end: int) -> tuple[Number, int]:
        """Return the literal that starts at `at`, with the unit that follows it, and where it ends."""
        unit_match = _UNIT.match(self.text, end)
        symbol = unit_match.group(1) if unit_match else ""
        if symbol in KEYWORDS or (symbol in AGGREGATES and symbol not in SYMBOLS):
            symbol = ""
        elif unit_match and symbol not in SYMBOLS:
            raise error_at(self.text, end, f"unknown unit {symbol!r}", self.where, "for example 24 GB, 50 GB/s, 500 ns")
        unit = SYMBOLS[symbol][0] if symbol else Unit.NONE
        try:
            value = parse(f"{digits} {symbol}".strip(), unit)
        except SpecError as error:
            factor = error.message.endswith("is not a whole number") and self._multiplies(at, end)
            raise error_at(self.text, at, error.message, self.where, FACTOR if factor else error.hint) from None
        return Number(value, unit, at), unit_match.end() if unit_match and symbol else end

    def _multiplies(self, at: int, end: int) -> bool:
        """Tell whether what stands from `at` to `end` is a factor."""
        return self.text[:at].rstrip().endswith("*") or self.text[end:].lstrip().startswith("*")

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def fail(self, expected: str) -> SpecError:
        found = f"{self.token.text!r}" if self.token.kind != "end" else "the end"
        return error_at(self.text, self.token.at, f"expected {expected}, found {found}", self.where)

    def take(self, text: str) -> bool:
        if self.token.text == text and self.token.kind in ("symbol", "name"):
            self.position += 1
            return True
        return False

    def need(self, text: str) -> None:
        if not self.take(text):
            raise self.fail(f"{text!r}")

    def need_name(self) -> str:
        token = self.token
        if token.kind != "name" or token.text in KEYWORDS:
            raise self.fail("a name")
        self.position += 1
        return token.text

    def rule_to_end(self) -> Syntax:
        tree = self.rule()
        if self.token.kind != "end":
            raise self.fail("an operator or the end of the rule")
        if _height(tree) > MAX_HEIGHT:
            raise self.too_deep(0)
        return tree

    def too_deep(self, at: int) -> SpecError:
        return error_at(self.text, at, "the rule is nested too deeply", self.where, "split it at 'and'")

    def enter(self) -> None:
        """Count one more level of brackets, indices or implications."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.too_deep(self.token.at)

    def rule(self) -> Syntax:
        self.enter()
        left = self.chain("or", "and")
        at = self.token.at
        if self.take("implies"):
            left = Operation("implies", (left, self.rule()), at)
        self.depth -= 1
        return left

    def chain(self, operator: str, inner: str | None) -> Syntax:
        """Parse `inner {operator inner}`; the innermost level is a negation or a comparison."""
        at = self.token.at
        operands = [self.chain(inner, None) if inner else self.negation()]
        while self.take(operator):
            operands.append(self.chain(inner, None) if inner else self.negation())
        return operands[0] if len(operands) == 1 else Operation(operator, tuple(operands), at)

    def negation(self) -> Syntax:
        at = self.token.at
        negations = 0
        while self.take("not"):
            negations += 1
        inner = self.comparison()
        return Operation("not", (inner,), at) if negations % 2 else inner

    def comparison(self) -> Syntax:
        left = self.sum()
        comparisons: list[Syntax] = []
        while True:
            at = self.token.at
            if self.token.text in COMPARISONS and self.token.kind == "symbol":
                operator = self.token.text
                self.position += 1
                right = self.sum()
                comparisons.append(Operation(operator, (left, right), at))
                left = right
            elif self.token.text == "in" or (self.token.text == "not" and self.tokens[self.position + 1].text == "in"):
                negated = self.take("not")
                self.need("in")
                member: Syntax = Member(left, self.options(), at)
                comparisons.append(Operation("not", (member,), at) if negated else member)
            else:
                break
        if not comparisons:
            return left
        return comparisons[0] if len(comparisons) == 1 else Operation("and", tuple(comparisons), comparisons[0].at)

    def options(self) -> tuple[Syntax, ...]:
        closing = {"{": "}", "[": "]", "(": ")"}.get(self.token.text)
        if closing is None:
            raise self.fail("a list such as {1, 2, 4}")
        self.position += 1
        values = [self.sum()]
        while self.take(","):
            values.append(self.sum())
        self.need(closing)
        return tuple(values)

    def sum(self) -> Syntax:
        terms = [self.term()]
        first = self.token.at
        while self.token.text in ("+", "-") and self.token.kind == "symbol":
            token = self.token
            self.position += 1
            term = self.term()
            terms.append(term if token.text == "+" else Operation("neg", (term,), token.at))
        return terms[0] if len(terms) == 1 else Operation("+", tuple(terms), first)

    def term(self) -> Syntax:
        left = self.unary()
        while self.token.text in ("*", "//", "%") and self.token.kind == "symbol":
            token = self.token
            self.position += 1
            right = self.unary()
            if token.text == "*" and isinstance(left, Operation) and left.operator == "*":
                left = Operation("*", (*left.operands, right), left.at)
            else:
                left = Operation(token.text, (left, right), token.at)
        return left

    def unary(self) -> Syntax:
        at = self.token.at
        negations = 0
        while self.take("-"):
            negations += 1
        inner = self.atom()
        return Operation("neg", (inner,), at) if negations % 2 else inner

    def atom(self) -> Syntax:
        token = self.token
        if token.number is not None:
            self.position += 1
            return token.number
        if token.kind == "text":
            self.position += 1
            return Text(token.text[1:-1], token.at)
        if self.take("("):
            inner = self.rule()
            self.need(")")
            return inner
        if token.kind == "name" and token.text in ("true", "false"):
            self.position += 1
            return Number(int(token.text == "true"), Unit.NONE, token.at)
        if token.kind == "name" and token.text in AGGREGATES and self.tokens[self.position + 1].text == "(":
            return self.aggregate()
        name = self.need_name() if token.kind == "name" else None
        if name is None:
            raise self.fail("a number, a name or '('")
        if self.take("["):
            self.enter()
            indices = [self.sum()]
            while self.take(","):
                indices.append(self.sum())
            self.need("]")
            self.depth -= 1
            return Index(name, tuple(indices), token.at)
        return Name(name, token.at)

    def aggregate(self) -> Syntax:
        at = self.token.at
        kind = self.need_name()
        self.need("(")
        body = [self.rule()]
        variable = index = None
        condition = None
        while self.take(","):
            body.append(self.rule())
        if self.take("for"):
            if len(body) > 1:
                raise self.fail("one expression before 'for'")
            variable = self.need_name()
            self.need("in")
            index = self.need_name()
            condition = self.rule() if self.take("if") else None
        self.need(")")
        return Aggregate(kind, tuple(body), variable, index, condition, at)


def _height(tree: Syntax) -> int:
    """Return the number of levels of a tree, without recursion."""
    height, level = 0, [tree]
    while level:
        height += 1
        level = [child for syntax in level for child in children(syntax)]
    return height
