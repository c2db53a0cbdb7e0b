"""Names, units and categories of a rule are resolved, or the rule is refused at the place."""

from __future__ import annotations

import pytest

from cosmic_opt.errors import SpecError
from cosmic_opt.psa.bind import Names, bind_rule
from cosmic_opt.psa.domain import Value
from cosmic_opt.psa.family import Family, numbered
from cosmic_opt.psa.parse import parse_rule
from cosmic_opt.psa.quantity import Quantity, QuantityTerm, SimulatedQuantity
from cosmic_opt.psa.term import Apply, ColumnTerm, Constant, QuantityPart, Simulated, Term, show
from cosmic_opt.units import Unit

DIMS = 3
DIM = numbered("dim", DIMS)
COLUMNS = {
    "tp": ColumnTerm("tp", (1, 2, 4), Unit.NONE),
    "pp": ColumnTerm("pp", (0, 1, 2), Unit.NONE),
    "shift": ColumnTerm("shift", (-2, 3), Unit.NONE),
    "flag": ColumnTerm("flag", (0, 1), Unit.NONE),
    "policy": ColumnTerm("policy", ("lifo", "fifo"), Unit.NONE),
    "red": ColumnTerm("red", (1, 2), Unit.NONE),
    "colour": ColumnTerm("colour", ("red", "blue"), Unit.NONE),
    "delay": ColumnTerm("delay", (10**6, 10**12), Unit.TIME),
    **{f"bandwidth[{d}]": ColumnTerm(f"bandwidth[{d}]", (10**9, 2 * 10**9), Unit.BYTES_PER_S) for d in range(DIMS)},
    "topology[0]": ColumnTerm("topology[0]", ("ring",), Unit.NONE),
    **{f"topology[{d}]": ColumnTerm(f"topology[{d}]", ("ring", "switch"), Unit.NONE) for d in range(1, DIMS)},
}
DATA: dict[str, Value] = {
    "npus": 8,
    "memory_capacity": 24 * 10**9,
    "price_rule": "libra",
    **{f"latency[{d}]": (d + 1) * 1000 for d in range(DIMS)},
}
MEMORY = Quantity(
    "memory",
    Unit.BYTES,
    (
        QuantityTerm(("tp", "pp"), lambda values: values["tp"] + values["pp"]),
        QuantityTerm(("npus",), lambda values: values["npus"] * 10),
    ),
    "bytes",
)
NAMES = Names(
    columns=COLUMNS,
    data=DATA,
    units={"memory_capacity": Unit.BYTES, "latency": Unit.TIME},
    families={family: Family(family, (DIM,)) for family in ("bandwidth", "topology", "latency")},
    quantities={"memory": MEMORY, "step_time": SimulatedQuantity("step_time", Unit.TIME, "time of a step")},
    indices={"dim": DIM},
    categories={"topology[0]": frozenset({"ring", "switch", "fully_connected"})},
)


def bound(text: str) -> Term:
    return bind_rule(parse_rule(text), text, NAMES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tp * pp == npus", "((tp * pp) == 8)"),
        ("tp <= 2 + 3 * 4", "(tp <= 14)"),
        ("tp - pp < 1", "((tp + -(pp)) < 1)"),
        ("tp in {1, 2}", "((tp == 1) or (tp == 2))"),
        ("policy == fifo", "(policy == fifo)"),
        ("policy == 'fifo'", "(policy == fifo)"),
        ("colour == 'red'", "(colour == red)"),
        ("topology[0] != fully_connected", "(topology[0] != fully_connected)"),
        ("topology[1] == topology[2]", "(topology[1] == topology[2])"),
        ("sum(latency) <= 6 ns", "1"),
        ("latency[1] >= 3 ns", "0"),
        ("max(bandwidth) <= 1 GB/s", "(max(bandwidth[0], bandwidth[1], bandwidth[2]) <= 1000000000)"),
        ("sum(bandwidth[d] for d in dim if d > 0) > 0", "((bandwidth[1] + bandwidth[2]) > 0)"),
        ("product(tp, pp) == 1", "((tp * pp) == 1)"),
        ("product(tp for d in dim if d > 5) == 1", "1"),
        ("sum(tp for d in dim if d > 5) == 1", "0"),
        ("all(topology[d] == ring for d in dim if d < 2)", "((topology[0] == ring) and (topology[1] == ring))"),
        ("any(bandwidth[d] > bandwidth[d + 1] for d in dim if d + 1 < 2)", "(bandwidth[0] > bandwidth[1])"),
        (
            "count(topology[d] == ring for d in dim) == 1",
            "(((topology[0] == ring) + (topology[1] == ring) + (topology[2] == ring)) == 1)",
        ),
        ("memory <= memory_capacity", "((memory + 80) <= 24000000000)"),
        ("step_time <= 2 s", "(step_time <= 2000000000000)"),
        ("flag", "flag"),
        ("not flag or flag", "(not (flag) or flag)"),
        ("flag and flag", "flag"),
        ("true implies flag", "flag"),
        ("flag implies false", "not (flag)"),
        ("false implies flag", "1"),
        ("tp == 1 or 1 == 1", "1"),
        ("tp == 1 and 1 == 2", "0"),
        ("not not (tp == 1)", "(tp == 1)"),
        ("delay // 2 == 3 ns", "((delay // 2) == 3000)"),
        ("delay // delay == 3", "((delay // delay) == 3)"),
        ("2 * delay <= 3 s", "((2 * delay) <= 3000000000000)"),
        ("tp % 3 == 1", "((tp % 3) == 1)"),
        ("tp % shift == 1", "((tp % shift) == 1)"),
        ("memory <= tp * 2 GB", "((memory + 80) <= (tp * 2000000000))"),
        ("bandwidth[0] * delay <= 5 GB", "((bandwidth[0] * delay) <= 5000000000)"),
    ],
)
def test_rule_is_bound_to(text: str, expected: str) -> None:
    assert show(bound(text)) == expected


@pytest.mark.parametrize(
    ("text", "message", "at", "hint"),
    [
        ("flog", "unknown name 'flog'", 0, "did you mean 'flag'?"),
        ("memory_capacty > 1", "unknown name 'memory_capacty'", 0, "did you mean 'memory_capacity' or 'memory'?"),
        ("policy == filo", "'filo' is not a value here", 10, "did you mean 'fifo'?"),
        ("policy == 'filo'", "'filo' is not a value here", 10, "did you mean 'fifo'?"),
        ("tp == ring", "unknown name 'ring'", 6, None),
        ("colour == red", "'red' is both a category and a name", 10, "write 'red' in quotes for the category"),
        ("tp == 'x'", "the text 'x' can only be compared with a parameter that has categories", 6, None),
        ("policy == 1", "a category and a number cannot be compared", 7, None),
        ("policy in {lifo, 1}", "a category and a number cannot be compared", 7, None),
        ("policy < fifo", "categories have no order: '<'", 7, "use == or !="),
        ("policy + 1 == 2", "'+' takes numbers, not categories", 7, None),
        ("1 - policy == 2", "'-' takes numbers, not categories", 2, None),
        ("min(policy, tp) == 1", "'min' takes numbers, not categories", 0, None),
        ("not policy", "'not' takes conditions", 4, "compare it, for example with '== 1'"),
        ("tp and flag", "'and' takes conditions", 0, "compare it, for example with '== 1'"),
        ("flag implies tp", "'implies' takes conditions", 13, "compare it, for example with '== 1'"),
        ("count(tp) == 1", "count(…) takes conditions", 0, None),
        ("tp", "this is a number, not a condition", 0, "compare it, for example with '<= 8'"),
        ("tp * 2", "this is a number, not a condition", 0, "compare it, for example with '<= 8'"),
        ("policy", "this is a number, not a condition", 0, "compare it, for example with '<= 8'"),
        ("tp % pp == 0", "'%' may divide by zero", 3, "the divisor must exclude 0"),
        ("tp // (tp - 2) == 0", "'//' may divide by zero", 3, "the divisor must exclude 0"),
        ("tp % 0 == 0", "'%' may divide by zero", 3, "the divisor must exclude 0"),
        ("bandwidth == 1", "'bandwidth' has one value per index", 0, "write bandwidth[0] or sum(bandwidth)"),
        ("bandwidth[3] > 1", "bandwidth[3] does not exist", 0, "indices run from 0 to 2"),
        ("bandwidth[-1] > 1", "bandwidth[-1] does not exist", 0, "indices run from 0 to 2"),
        ("sum(bandwidth[d + 1] for d in dim) > 0", "bandwidth[3] does not exist", 4, "indices run from 0 to 2"),
        ("bandwidth[tp] > 1", "an index must be a constant or a bound index", 0, None),
        ("tp[0] == 1", "'tp' has no index", 0, "write tp without an index"),
        ("bandwith[0] == 1", "unknown family 'bandwith'", 0, "did you mean 'bandwidth'?"),
        ("sum(tp for d in dims) == 1", "unknown index 'dims'", 0, "did you mean 'dim'?"),
        ("sum(tp for tp in dim) == 1", "the index 'tp' is also a name", 0, "call it d"),
        ("sum(tp for d in dim if tp > 1) == 1", "the 'if' of an aggregate may only use the index and data", 26, None),
        ("min(tp for d in dim if d > 5) == 1", "min(…) of nothing", 0, None),
        ("memory <= 24 GB/s", "'<=' mixes a bandwidth and a size", 7, "compare numbers of one unit"),
        ("bandwidth[0] + memory > 0", "'+' mixes a bandwidth and a size", 13, "compare numbers of one unit"),
        ("max(delay, memory) > 0", "'max' mixes a size and a time", 0, "compare numbers of one unit"),
        (
            "tp <= 5 GB",
            "'<=' mixes a size and a number without a unit",
            3,
            "give the parameter a unit, or compare it with a bare number",
        ),
        ("sum(bandwidth) >= tp * pp", "'>=' mixes a bandwidth and a number without a unit", 15, None),
        ("delay + tp > 0", "'+' mixes a time and a number without a unit", 6, None),
        ("delay <= 5", "5 needs a unit of time", 6, "write for example 5 s"),
        ("step_time <= 5", "5 needs a unit of time", 10, "write for example 5 s"),
        ("step_time * 2 <= 5 s", "a simulated quantity can only be compared", 10, "write for example step_time <= 2 s"),
        ("npus * " + " * ".join(["9" * 90] * 20) + " == 1", "the number is beyond 2^1024", 5, None),
    ],
)
def test_rule_is_refused_at_the_place(text: str, message: str, at: int, hint: str | None) -> None:
    with pytest.raises(SpecError) as caught:
        bound(text)
    said, _, mark = caught.value.message.split("\n")
    assert (said, mark.index("^") - 4) == (message, at)
    if hint is not None:
        assert caught.value.hint == hint


def test_rule_that_unrolls_to_too_many_terms_is_refused() -> None:
    names = Names(COLUMNS, DATA, {}, {}, {}, {"dim": numbered("dim", 1000)})
    text = "sum(sum(tp for e in dim) for d in dim) > 0"
    with pytest.raises(SpecError, match="unrolls to too many terms"):
        bind_rule(parse_rule(text), text, names)


def test_zero_needs_no_unit_of_time() -> None:
    assert isinstance(bound("delay > 0"), Apply)


def test_fixed_parameter_still_knows_the_categories_it_could_have_had() -> None:
    assert show(bound("topology[0] == switch")) == "(topology[0] == switch)"
    assert (
        show(bound("all(topology[d] != fully_connected for d in dim if d < 1)")) == "(topology[0] != fully_connected)"
    )


def test_parts_of_a_quantity_read_columns_and_its_constant_part_is_settled() -> None:
    rule = bound("memory <= 24 GB")
    assert isinstance(rule, Apply)
    assert isinstance(rule.operands[0], Apply)
    part, constant = rule.operands[0].operands
    assert isinstance(part, QuantityPart)
    assert part.columns == {"tp", "pp"}
    assert constant == Constant(80, Unit.BYTES)


def test_simulated_quantity_stays_one_term() -> None:
    rule = bound("step_time <= 2 s")
    assert isinstance(rule, Apply)
    assert isinstance(rule.operands[0], Simulated)
