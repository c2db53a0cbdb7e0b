"""The grammar: shapes of trees, literals with units, and errors that point at the place."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmic_opt.errors import SpecError, Where
from cosmic_opt.psa.expr import Aggregate, Index, Member, Name, Number, Operation, Syntax, Text
from cosmic_opt.psa.parse import FACTOR, MAX_DEPTH, MAX_HEIGHT, MAX_LENGTH, parse_rule
from cosmic_opt.units import Unit


def shape(tree: Syntax) -> str:
    """Return a tree in prefix notation."""
    match tree:
        case Number(value, _, _):
            return str(value)
        case Text(value, _):
            return repr(value)
        case Name(name, _):
            return name
        case Index(name, indices, _):
            return f"{name}[{' '.join(map(shape, indices))}]"
        case Operation(operator, operands, _):
            return f"({' '.join([operator, *map(shape, operands)])})"
        case Member(item, options, _):
            return f"({shape(item)} in {' '.join(map(shape, options))})"
        case Aggregate(kind, body, variable, index, condition, _):
            loop = f" for {variable} in {index}" if variable else ""
            only = f" if {shape(condition)}" if condition else ""
            return f"({kind} {' '.join(map(shape, body))}{loop}{only})"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b * c == d", "(== (+ a (* b c)) d)"),
        ("a - b - c < 1", "(< (+ a (neg b) (neg c)) 1)"),
        ("a - (b - c) < 1", "(< (+ a (neg (+ b (neg c)))) 1)"),
        ("a * b * c // d * e < 1", "(< (* (// (* a b c) d) e) 1)"),
        ("a // b // c < 1", "(< (// (// a b) c) 1)"),
        ("a % b * c < 1", "(< (* (% a b) c) 1)"),
        ("-a * b < 1", "(< (* (neg a) b) 1)"),
        ("--a < 1", "(< a 1)"),
        ("not a == 1", "(not (== a 1))"),
        ("not not a", "a"),
        ("a or b and c", "(or a (and b c))"),
        ("a or b or c", "(or a b c)"),
        ("not a and b", "(and (not a) b)"),
        ("a implies b implies c", "(implies a (implies b c))"),
        ("a or b implies c and d", "(implies (or a b) (and c d))"),
        ("(a implies b) and c", "(and (implies a b) c)"),
        ("1 <= a < b", "(and (<= 1 a) (< a b))"),
        ("a == b == c", "(and (== a b) (== b c))"),
        ("a in {1, 2 + 3}", "(a in 1 (+ 2 3))"),
        ("a not in {1}", "(not (a in 1))"),
        ("a in [1, 2]", "(a in 1 2)"),
        ("a in (1, 2)", "(a in 1 2)"),
        ("x == 'red'", "(== x 'red')"),
        ('x == "red"', "(== x 'red')"),
        ("f[d + 1] == true", "(== f[(+ d 1)] 1)"),
        ("sum(f) == 1", "(== (sum f) 1)"),
        ("max(a, b, 3) == 1", "(== (max a b 3) 1)"),
        ("all(f[d] > 0 for d in dim)", "(all (> f[d] 0) for d in dim)"),
        ("count(a == 1 for d in dim if d < 2) > 0", "(> (count (== a 1) for d in dim if (< d 2)) 0)"),
        ("count == 1", "(== count 1)"),
        ("1_000 == a", "(== 1000 a)"),
        ("1e3 == a", "(== 1000 a)"),
    ],
)
def test_text_becomes_this_tree(text: str, expected: str) -> None:
    assert shape(parse_rule(text)) == expected


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("24 GB", 24 * 10**9, Unit.BYTES),
        ("24GB", 24 * 10**9, Unit.BYTES),
        ("1.5 GiB", 3 * 2**29, Unit.BYTES),
        ("50 GB/s", 50 * 10**9, Unit.BYTES_PER_S),
        ("400 Gb/s", 50 * 10**9, Unit.BYTES_PER_S),
        ("500 ns", 500_000, Unit.TIME),
        ("2 min", 120 * 10**12, Unit.TIME),
        ("312 TFLOPS", 312 * 10**12, Unit.FLOP_PER_S),
        ("5 $", 5, Unit.DOLLARS),
        ("7", 7, Unit.NONE),
    ],
)
def test_literal_carries_its_unit(text: str, value: int, unit: Unit) -> None:
    tree = parse_rule(f"a <= {text}")
    assert isinstance(tree, Operation)
    assert tree.operands[1] == Number(value, unit, 5)


def test_keyword_or_aggregate_after_a_number_is_no_unit() -> None:
    assert shape(parse_rule("a == 1 and b == 2 or c")) == "(or (and (== a 1) (== b 2)) c)"
    assert shape(parse_rule("2 * min(a, b) <= 2 min")) == f"(<= (* 2 (min a b)) {120 * 10**12})"


@pytest.mark.parametrize(
    ("text", "message", "at", "hint"),
    [
        ("a = 1", "'=' does not belong in a rule", 2, "write '=='"),
        ("a & b", "'&' does not belong in a rule", 2, "write 'and'"),
        ("a && b", "'&&' does not belong in a rule", 2, "write 'and'"),
        ("a || b", "'||' does not belong in a rule", 2, "write 'or'"),
        ("a / 2 == 1", "'/' does not belong in a rule", 2, "write '//'"),
        ("a == 1 ?", "'?' does not belong in a rule", 7, None),
        ("a ==", "expected a number, a name or '(', found the end", 4, None),
        ("a == )", "expected a number, a name or '(', found ')'", 5, None),
        ("(a == 1", "expected ')', found the end", 7, None),
        ("a == 1 2", "expected an operator or the end of the rule, found '2'", 7, None),
        ("a b", "expected an operator or the end of the rule, found 'b'", 2, None),
        ("f[1 == 1", "expected ']', found '=='", 4, None),
        ("a in 1", "expected a list such as {1, 2, 4}, found '1'", 5, None),
        ("a in {1", "expected '}', found the end", 7, None),
        ("a in {}", "expected a number, a name or '(', found '}'", 6, None),
        ("sum(a for in dim) == 1", "expected a name, found 'in'", 10, None),
        ("sum(a, b for d in dim) == 1", "expected one expression before 'for', found 'd'", 13, None),
        ("min() == 1", "expected a number, a name or '(', found ')'", 4, None),
        ("a == 3 parsec", "unknown unit 'parsec'", 6, "for example 24 GB, 50 GB/s, 500 ns"),
        ("a == 1.5", "'1.5' is not a whole number", 5, "write 1 or 2; a size or a time needs its unit"),
        (
            "a >= 26824.06",
            "'26824.06' is not a whole number",
            5,
            "write 26824 or 26825; a size or a time needs its unit",
        ),
        ("a * 1e-12 <= b", "'1e-12' is not a whole number", 4, FACTOR),
        ("a <= 0.5*b", "'0.5' is not a whole number", 5, FACTOR),
        ("a == 1e99", "'1e99' is out of range", 5, "exponents go up to 60"),
        ("a == 'red", '"\'" does not belong in a rule', 5, None),
        ("", "expected a number, a name or '(', found the end", 0, None),
        ("and", "expected a name, found 'and'", 0, None),
    ],
)
def test_error_points_at_the_place(text: str, message: str, at: int, hint: str | None) -> None:
    with pytest.raises(SpecError) as caught:
        parse_rule(text, Where("model.yaml", 7, "constraints.r"))
    said, shown, mark = caught.value.message.split("\n")
    assert said == message
    assert (shown.strip(), mark.index("^") - 4) == (text, at)
    assert caught.value.hint == hint
    assert caught.value.where == Where("model.yaml", 7, "constraints.r")


def test_long_rule_is_shown_around_the_place() -> None:
    text = "a == 1 or " * 30 + "b ! 2"
    with pytest.raises(SpecError) as caught:
        parse_rule(text)
    _, shown, mark = caught.value.message.split("\n")
    assert len(shown) < 130
    assert shown[mark.index("^")] == "!"


def test_rule_too_long_is_refused() -> None:
    with pytest.raises(SpecError, match="a rule of 4,001 characters"):
        parse_rule("a" * (MAX_LENGTH + 1))


@pytest.mark.parametrize(
    "text",
    [
        "(" * (MAX_DEPTH + 1) + "a" + ")" * (MAX_DEPTH + 1),
        "f[" * (MAX_DEPTH + 1) + "0" + "]" * (MAX_DEPTH + 1) + " == 1",
        " implies ".join(["a"] * (MAX_DEPTH + 2)),
        "//".join(["a"] * (MAX_HEIGHT + 2)),
        "min(" * (MAX_DEPTH + 1) + "a" + ")" * (MAX_DEPTH + 1),
    ],
    ids=["brackets", "indices", "implications", "divisions", "aggregates"],
)
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="nested too deeply"):
        parse_rule(text)


@pytest.mark.parametrize("operator", ["+", "-", "*", " or ", " and ", "<"])
def test_a_long_chain_is_not_deep(operator: str) -> None:
    length = MAX_LENGTH // (len(operator) + 1)
    parse_rule(operator.join(["a"] * length))


def refusal(text: str) -> SpecError | None:
    try:
        parse_rule(text)
    except SpecError as error:
        return error
    return None


@settings(derandomize=True, deadline=None, max_examples=400)
@given(st.text(max_size=60))
def test_any_text_is_a_rule_or_a_spec_error_with_a_mark(text: str) -> None:
    error = refusal(text)
    assert error is None or "^" in error.message


_WORDS = "a b f red 'red' 1 2 0 3.5 1e9 GB ns $ % + - * // ( ) [ ] { } , == != <= < >= > and or not implies in for if"
_WORDS += " dim d sum product min max count all any true false"


@settings(derandomize=True, deadline=None, max_examples=600)
@given(st.lists(st.sampled_from(_WORDS.split(" ")), max_size=14).map(" ".join))
def test_any_words_of_the_language_are_a_rule_or_a_spec_error_with_a_mark(text: str) -> None:
    error = refusal(text)
    assert error is None or "^" in error.message
