"""Dollars and watts of a whole system: closed forms by hand, and what is missing where there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_opt.api import Problem
from cosmic_opt.catalog.bind import BoundInstance
from cosmic_opt.catalog.digest import problem_digest
from cosmic_opt.errors import LimitError, SpecError
from cosmic_opt.psa.quantity import Quantity
from cosmic_opt.search.objective import quantity_values
from cosmic_opt.search.report import Report
from cosmic_opt.units import Unit
from tests.unit.catalog.files import bound, edited, size, write

PRICES, DEVICE = "parts/prices.yaml", "parts/device.yaml"
PRICED = {"set_": ["device_price=1000 $", "device_power=300 W"]}
NET = ["topology[0]=ring", "topology[1]=switch", "bandwidth=50 GB/s"]


def priced(folder: Path, devices: str = "own: 1000 $") -> Path:
    return write(folder, PRICES, "tiers:", f"devices: {{{devices}}}\ntiers:")


def powered(folder: Path, power: str = "300 W") -> Path:
    return write(folder, DEVICE, "memory_capacity: 32 GB\n", f"memory_capacity: 32 GB\npower: {power}\n")


def amount(instance: BoundInstance, name: str) -> int:
    """The amount of the first design."""
    quantity = instance.parameter_set.quantities[name]
    assert isinstance(quantity, Quantity)
    batch = instance.parameter_set.batch([[0] * len(instance.parameter_set.columns)])
    return int(quantity_values(quantity, batch)[0])


def scored(problem: Problem) -> Report:
    """The instance's own design, scored."""
    return problem.simulate(problem.parameter_set.design(problem.instance.baseline))


def test_a_system_costs_its_devices_and_its_network(tmp_path: Path) -> None:
    instance = edited(priced(tmp_path), fix=NET)
    ring, switch = 8 * 50 * 2, 8 * 50 * (2 * 4.5 + 13 + 31.6)
    assert amount(instance, "device_cost") == 8 * 1000
    assert amount(instance, "network_cost") == ring + switch == 22_240
    assert amount(instance, "system_cost") == 30_240
    assert instance.parameter_set.quantities["system_cost"].unit is Unit.DOLLARS


def test_a_system_draws_the_power_of_all_its_boards(tmp_path: Path) -> None:
    instance = edited(powered(tmp_path), fix=NET)
    assert amount(instance, "system_power") == 8 * 300
    assert instance.parameter_set.quantities["system_power"].unit is Unit.POWER


def test_rules_on_the_system_mean_what_they_say(tmp_path: Path) -> None:
    path = priced(tmp_path)
    assert size(edited(path, fix=NET, require=["system_cost <= 30240 $"])) > 0
    assert size(edited(path, fix=NET, require=["system_cost < 30240 $"])) == 0
    for rule, holds in (("system_power <= 2.4 kW", True), ("system_power < 2400 W", False)):
        assert bool(size(edited(path, require=[rule], **PRICED))) == holds
    assert bool(size(edited(path, require=["device_cost == 8000"])))


def test_a_priced_system_excludes_blocks_that_cannot_be_bought(tmp_path: Path) -> None:
    names = [rule.name for rule in edited(priced(tmp_path), require=["system_cost <= 1 $"]).parameter_set.constraints]
    assert "priced" in names


def test_data_change_price_and_power(tmp_path: Path) -> None:
    instance = edited(priced(tmp_path), fix=NET, set_=["device_price=20 $", "device_power=0.5 kW"])
    assert amount(instance, "device_cost") == 160
    assert amount(instance, "system_power") == 4000


def test_a_cluster_is_bought_whole_whatever_a_served_model_uses() -> None:
    problem = Problem.load("llama3-70b/h100-8-serving").fix(dp=1, tp=2, pp=1)
    assert amount(problem.instance, "npus_used") == 2
    assert amount(problem.instance, "device_cost") == 8 * 30_000
    assert amount(problem.instance, "system_power") == 8 * 700


@pytest.mark.parametrize(
    ("rule", "message", "hint"),
    [
        ("device_cost <= 5 $", "the system has no price for its device 'own'", "give `devices:` in a prices file"),
        ("system_cost <= 5 $", "the system has no price for its device 'own'", "--set device_price='30000 $'"),
        ("system_power <= 5 W", "the power of the device 'own' is not known", "give `power: 700 W`"),
        ("energy <= 5 J", "the power of the device 'own' is not known", "--set device_power='700 W'"),
        ("power <= 3 MW", "unknown name 'power'", "did you mean"),
    ],
)
def test_what_is_missing_for_a_quantity_is_said(tmp_path: Path, rule: str, message: str, hint: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        edited(write(tmp_path), require=[rule])
    assert hint in str(caught.value.hint)


def test_a_priced_device_without_a_priced_network_has_a_cost_of_its_own(tmp_path: Path) -> None:
    path = write(tmp_path, "parts/system.yaml", "prices: prices.yaml\n", "")
    assert amount(edited(path, **PRICED), "device_cost") == 8000
    with pytest.raises(SpecError, match="the system's network has no price"):
        edited(path, require=["system_cost <= 5 $"], **PRICED)


@pytest.mark.parametrize("objective", ["step_time * system_cost", "energy"])
def test_an_objective_without_its_quantity_is_refused(tmp_path: Path, objective: str) -> None:
    with pytest.raises(SpecError, match=f"the objective needs {objective.split()[-1]}: the") as caught:
        edited(write(tmp_path), objective=objective)
    assert "--set device_" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ("own: -1 $", "'-1 \\$' is no price of a device"),
        ("own: 1e9 $", "is no price of a device"),
        ("own: 5 W", "'5 W' is a power, but a price is meant here"),
        ("own: 0.5 $", "is not a whole number"),
        ("own: much", "'much' is not a number"),
        ("own: [5]", "expected a number with a unit"),
        ("own: null", "expected a number with a unit"),
        ("h100-smx: 30000 $", "unknown device 'h100-smx'"),
        ("own: .nan", "nan is not a number"),
    ],
)
def test_a_price_that_means_nothing_is_refused(tmp_path: Path, devices: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        bound(priced(tmp_path, devices))
    assert "prices.yaml" in str(caught.value)


def test_a_device_in_capitals_is_answered_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="unknown device 'H100'") as caught:
        bound(priced(tmp_path, "H100: 30000 $"))
    assert str(caught.value.hint).startswith("did you mean 'h100-sxm' or ")


@pytest.mark.parametrize(
    ("setting", "message", "hint"),
    [
        ("device_power=0", "device_power = 0 is out of range", "allowed: 1 W to 1 MW"),
        ("device_power=5 J", "'5 J' is an energy, but a power is meant here", "write for example '700 W'"),
        ("device_power=nan", "'nan' is not a number", "write for example '700 W'"),
        ("device_price=nan", "'nan' is not a number", "write for example '1000000 $'"),
        ("device_price=1e10", "out of range", "allowed: $ 0 to $ "),
    ],
)
def test_a_refused_datum_is_answered_in_its_own_unit(tmp_path: Path, setting: str, message: str, hint: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        edited(write(tmp_path), set_=[setting])
    assert str(caught.value.hint).startswith(hint)


def test_a_device_may_be_given_away(tmp_path: Path) -> None:
    assert amount(edited(priced(tmp_path, "own: 0 $"), fix=NET), "system_cost") == 22_240


@pytest.mark.parametrize("power", ["0 W", "-3 W", "2 MW", "700 J", "lots", "[7]", "0.4 W", "700.5 W", "700.5"])
def test_a_power_that_no_board_has_is_refused(tmp_path: Path, power: str) -> None:
    with pytest.raises(SpecError) as caught:
        bound(powered(tmp_path, power))
    assert "device.yaml" in str(caught.value)


def test_a_power_that_is_not_published_is_none(tmp_path: Path) -> None:
    assert "system_power" not in bound(powered(tmp_path, "none")).parameter_set.quantities


@pytest.mark.parametrize(
    "setting",
    [
        "device_price=-1 $",
        "device_price=1e10 $",
        "device_power=0 W",
        "device_power=2 MW",
        "device_power=3 $",
        "device_power=699.9 W",
    ],
)
def test_a_datum_that_means_nothing_is_refused(tmp_path: Path, setting: str) -> None:
    with pytest.raises(SpecError) as caught:
        edited(write(tmp_path), set_=[setting])
    assert "--set device_" in str(caught.value)


@pytest.mark.parametrize(
    "rule", ["system_power <= 44799.9 W", "system_power < 44800.5 W", "system_power == 44.8001 kW"]
)
def test_a_rule_on_a_fraction_of_a_watt_is_refused_not_rounded(rule: str) -> None:
    problem = Problem.load("llama3-70b/h100-64")
    assert [problem.require(f"system_power {limit}").count().value for limit in ("<= 44799 W", "< 44801 W")] == [
        0,
        2759,
    ]
    with pytest.raises(SpecError, match="is not a whole number of W") as caught:
        problem.require(rule).count()
    assert "44800 W" in str(caught.value.hint)


def test_a_lower_power_slows_a_calibrated_board_and_a_higher_one_is_refused() -> None:
    problem = Problem.load("llama3-70b/h100-64")
    assert scored(problem.set(device_power="700 W")).metrics == scored(problem).metrics
    own, capped = (scored(each).metrics["step_time_s"] for each in (problem, problem.set(device_power="500 W")))
    assert float(capped or 0) > float(own or 0)
    with pytest.raises(SpecError, match="above its own of 700 W") as caught:
        _ = problem.set(device_power="701 W").instance
    assert caught.value.hint == "--set device_power: at least 175 W, and up to 700 W"


def test_the_digest_of_a_problem_knows_price_and_power(tmp_path: Path) -> None:
    problem = Problem.load(str(priced(tmp_path)))
    asked = [problem, problem.set(device_price="9 $"), problem.set(device_power="9 W")]
    assert len({problem_digest(each.spec, each.instance) for each in asked}) == 3


def test_the_network_of_a_served_model_has_a_price_by_either_rule() -> None:
    problem = Problem.load("llama3-70b/h100-8-serving")
    nvlink, pod = 450 * (4 + 13), 50 * (7.8 + 18 + 31.6)
    assert amount(problem.instance, "network_cost") == 8 * (nvlink + pod) == 84_160
    assert amount(problem.set(price_rule="cosmic").instance, "network_cost") == 84_160 + 8 * (450 * 4 + 50 * 7.8)


def test_a_calibrated_device_has_the_price_of_the_board_it_was_calibrated_from(tmp_path: Path) -> None:
    for devices, price in (("h100-sxm: 30000 $", 30_000), ("own: 1000 $, h100-sxm: 30000 $", 1000)):
        instance = priced(tmp_path, devices)
        device = tmp_path / DEVICE
        text = device.read_text(encoding="utf-8")
        device.write_text(f"{text}\ncalibrated: {{from: h100-sxm, rows: 0, steps: 5}}\n", encoding="utf-8")
        assert amount(edited(instance, fix=NET), "device_cost") == 8 * price


def test_an_unknown_device_in_a_prices_file_is_blamed_on_its_own_key(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="unknown device 'h99'") as caught:
        bound(priced(tmp_path, "h99: 1 $"))
    assert caught.value.where is not None
    assert "tiers" not in str(caught.value.where)


def dear(folder: Path, npus: int, link: str) -> Problem:
    """The outer dimension holds so many NPUs, at up to 10^18 B/s; the inner one has links of the same price."""
    write(folder)
    prices, system = folder / PRICES, folder / "parts/system.yaml"
    prices.write_text(prices.read_text().replace("link: 4.5 $", f"link: {link}").replace("link: 2 $", f"link: {link}"))
    wide = system.read_text().replace("npus: 4, bandwidth: 50 GB/s", f"npus: {npus}, bandwidth: 1e18 B/s")
    system.write_text(wide.replace("bandwidth: 75 GB/s", "bandwidth: 9e17 B/s"))
    return Problem.load(str(folder / "instance.yaml"))


def test_a_network_of_more_dollars_than_a_machine_number_holds_is_refused(tmp_path: Path) -> None:
    # 2 * 32 NPUs * 9 * 10^8 GB/s * 10^8 $ = 5.76e18 $ in the inner dimension, and 2^62 is 4.6e18
    problem = dear(tmp_path, 32, "1e8 $").objective("step_time * network_cost")
    with pytest.raises(LimitError, match=r"a ring of .* costs \$ 5,760,000,.* for 64 NPUs, too much"):
        problem.solve()


def test_dimensions_that_cost_too_much_together_are_refused(tmp_path: Path) -> None:
    # 2 * 16 NPUs: 3.2e18 $ and 2.88e18 $, each of which fits
    problem = dear(tmp_path, 16, "1e8 $").fix({"topology": "ring"}).free("bandwidth")
    for asked in (problem.objective("step_time * network_cost").solve, lambda: problem.pareto("network_cost")):
        with pytest.raises(LimitError, match=r"network_cost' passes 2\^62"):
            asked()
    most = problem.optimise("network_cost", maximise=True).value
    assert most == 32 * (10**9 + 9 * 10**8) * 10**8
