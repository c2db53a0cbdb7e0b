"""`collective`: closed forms by hand, ASTRA-sim's own numbers, lists checked against each other."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.unit.cli.running import Done, run

GOLDEN = Path(__file__).parents[2] / "golden" / "astrasim_collectives.json"
RING = {"--topology": "ring", "--npus": "4", "--bandwidth": "200 GB/s", "--latency": "500 ns", "--size": "256MB"}


def collective(*more: str, **changes: str) -> Done:
    options = RING | {f"--{name}": value for name, value in changes.items()}
    return run("collective", *(word for pair in options.items() for word in pair), *more)


def test_a_ring_all_reduce_is_the_textbook_formula() -> None:
    keys = collective("--json").keys
    by_hand = 2 * 3 / 4 * 256e6 / 200e9 + 2 * 3 * 500e-9
    assert math.isclose(keys["time_s"], by_hand)
    assert keys["time_ns"] == 1_923_000
    assert math.isclose(keys["bus_bandwidth_bytes_per_s"], 2 * 3 / 4 * 256e6 / by_hand)
    assert (keys["schema"], keys["npus"], keys["chunks"]) == ("cosmic-opt/collective@1", 4, 1)


def test_phases_of_two_dimensions_go_up_and_down() -> None:
    two = {"topology": "ring,switch", "npus": "4,8", "bandwidth": "200 GB/s, 50 GB/s", "latency": "500 ns,1 us"}
    phases = collective("--json", **two).keys["phases"]
    assert [(phase["dim"], phase["collective"]) for phase in phases] == [
        (0, "reduce_scatter"),
        (1, "all_reduce"),
        (0, "all_gather"),
    ]
    assert [phase["payload_bytes"] for phase in phases] == [256_000_000, 64_000_000, 256_000_000]
    assert sum(phase["time_ns"] for phase in phases) == collective("--json", **two).keys["time_ns"]


def test_every_default_is_echoed() -> None:
    keys = collective("--json").keys
    assert (keys["algorithm"], keys["multidim"], keys["profile"]) == (["ring"], "blueconnect", "link")
    assert keys["bandwidth_bytes_per_s"] == [200_000_000_000]
    assert "each suits its block" in collective().err


def test_hyphens_and_capitals_are_read() -> None:
    assert collective("--collective", "All-Gather", "--json").keys["collective"] == "all_gather"


def test_astra_sim_gives_its_own_nanoseconds_when_its_unit_is_written() -> None:
    case = json.loads(GOLDEN.read_text())["cases"][0]
    assert (case["topology"], case["collective"], case["algorithm_per_dim"]) == (["Ring"], "AllReduce", ["ring"])
    done = collective(
        "--profile",
        "astra_sim",
        "--json",
        "--chunks",
        str(case["chunks"]),
        "--active-chunks",
        str(case["active_chunks_per_dim"]),
        "--endpoint-delay",
        f"{case['endpoint_delay_ns']} ns",
        "--memory-bandwidth",
        f"{case['local_mem_bw_GBps']} GB/s",
        npus=str(case["npus_per_dim"][0]),
        bandwidth=f"{case['bandwidth_GBps'][0]} GiB/s",
        latency=f"{case['latency_ns'][0]} ns",
        size=f"{case['bytes']} B",
    )
    assert done.keys["time_ns"] == case["time_ns"]


def test_the_aware_profile_makes_messages_wait() -> None:
    times = [
        collective("--profile", profile, "--json", algorithm="direct").keys["time_ns"]
        for profile in ("astra_sim", "astra_sim_aware")
    ]
    assert times[0] < times[1]
    assert "astra_sim_aware" in collective("--profile", "astra_sim_aware").out


def test_a_decimal_gigabyte_is_slower_than_astra_sims_unit() -> None:
    decimal, binary = (
        collective("--profile", "astra_sim", "--json", bandwidth=text).keys["time_ns"]
        for text in ("50 GB/s", "50 GiB/s")
    )
    assert decimal > binary
    assert "GiB/s" in collective("--profile", "astra_sim").err


def test_one_npu_sends_nothing() -> None:
    done = collective(npus="1")
    assert done.code == 0
    assert "sends nothing" in done.out
    assert collective("--json", npus="1").keys["time_ns"] == 0


@pytest.mark.parametrize(("size", "hint"), [("0.5B", "0 B or 1 B"), ("2.5B", "2 B or 3 B"), ("1e-4 KB", "0 B or 1 B")])
def test_a_fraction_of_a_byte_is_refused(size: str, hint: str) -> None:
    done = collective(size=size)
    assert (done.code, hint in done.err) == (2, True)
    assert collective("--json", size="0.5 KB").keys["size_bytes"] == 500


@pytest.mark.parametrize("size", ["256", " 256", "-1", "999999", "2.5"])
def test_a_bare_small_number_of_bytes_is_refused_as_elsewhere(size: str) -> None:
    done = collective(size=size)
    assert done.code == 2
    assert f"write '{size.strip()}MB', or '{size.strip()}B' for bytes" in done.err


def test_no_bytes_and_millions_of_them_need_no_unit() -> None:
    assert [collective("--json", size=size).keys["size_bytes"] for size in ("0", "256000000")] == [0, 256000000]


def test_a_prime_size_runs_and_an_impossible_algorithm_is_infeasible() -> None:
    assert collective(npus="7", topology="switch").code == 0
    done = collective("--algorithm", "halving_doubling", npus="7", topology="switch")
    assert (done.code, done.out) == (3, "")
    assert "power of two" in done.err


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"topology": "ring,ring"}, ("--npus", "--topology")),
        ({"npus": "4,4"}, ("--npus", "--topology")),
        ({"bandwidth": "1 GB/s,2 GB/s"}, ("--bandwidth", "--topology")),
        ({"algorithm": "ring,ring"}, ("--algorithm", "--topology")),
        ({"topology": "rng"}, ("did you mean 'ring'",)),
        ({"topology": ""}, ("empty entry",)),
        ({"npus": "0"}, ("out of range",)),
        ({"npus": "4.5"}, ("whole number",)),
        ({"npus": "1e12"}, ("out of range",)),
        ({"bandwidth": "50"}, ("needs a unit",)),
        ({"bandwidth": "50 GB"}, ("a bandwidth is meant",)),
        ({"bandwidth": "-50 GB/s"}, ("out of range",)),
        ({"bandwidth": "nan GB/s"}, ("not a number",)),
        ({"latency": "5"}, ("unit of time",)),
        ({"latency": "-5 ns"}, ("out of range",)),
        ({"size": "-1 B"}, ("out of range",)),
        ({"size": "1e50"}, ("out of range",)),
        ({"chunks": "0"}, ("--chunks",)),
        ({"collective": "allreduce"}, ("did you mean 'all_reduce'",)),
        ({"multidim": "x"}, ("baseline",)),
        ({"profile": "x"}, ("astra_sim",)),
        ({"active-chunks": "2"}, ("no effect under the profile 'link'",)),
        ({"endpoint-delay": "0.5 ns", "profile": "astra_sim"}, ("whole ns",)),
        ({"memory-bandwidth": "-1 GB/s", "profile": "astra_sim"}, ("out of range",)),
        ({"algorithm": "foo", "profile": "astra_sim"}, ("known:",)),
    ],
)
def test_input_that_means_nothing_is_refused_with_a_hint(changes: dict[str, str], words: tuple[str, ...]) -> None:
    done = collective(**changes)
    assert (done.code, done.out) == (2, "")
    assert all(word in done.err for word in words), done.err
    assert "hint:" in done.err


def test_what_does_not_fit_in_memory_is_a_limit() -> None:
    done = collective("--algorithm", "direct", npus="100000")
    assert (done.code, done.out) == (4, "")
    assert "8,192" in done.err


SWITCHES = {
    "topology": "switch,switch,switch",
    "npus": "16,8,8",
    "bandwidth": "100 GB/s,100 GB/s,100 GB/s",
    "latency": "700 ns,700 ns,1.7 us",
    "chunks": "64",
}


def test_themis_beats_the_fixed_order_where_dimensions_are_equally_fast() -> None:
    fixed = collective("--json", **SWITCHES, size="1GB").keys
    keys = collective(
        "--json", "--multidim", "themis", "--scheduling-policy", "smallest_first", **SWITCHES, size="1GB"
    ).keys
    assert keys["time_s"] < 0.5 * fixed["time_s"]
    assert (keys["multidim"], keys["scheduling_policy"], keys["chunks"]) == ("themis", "smallest_first", 64)
    assert [phase["dim"] for phase in keys["phases"]] == [0, 1, 2, 2, 1, 0]
    assert "scheduling_policy" not in fixed


def test_themis_and_its_policy_are_refused_where_they_mean_nothing() -> None:
    for more, message in (
        (("--scheduling-policy", "lifo"), "only themis"),
        (("--multidim", "themis", "--profile", "astra_sim"), "not known here"),
        (("--multidim", "themis", "--scheduling-policy", "smallest"), "smallest_first"),
        (("--multidim", "themis", "--collective", "all_to_all"), "does not schedule"),
        (("--multidim", "themsi"), "themis"),
        (("--multidim", "themis", "--scheduling-policy", ""), "not known here"),
    ):
        done = collective(*more)
        assert done.code == 2
        assert message in done.err


def test_a_switch_that_reduces_takes_the_buffer_once() -> None:
    """256 MB at 50 GB/s and one hop; NCCL's measure counts 14/8 of the buffer."""
    one = {"topology": "switch", "npus": "8", "bandwidth": "50 GB/s", "latency": "1 us", "algorithm": "in_network"}
    keys = collective("--json", "--in-network-reduction", **one).keys
    assert keys["time_ns"] == 5_121_000
    assert math.isclose(keys["bus_bandwidth_bytes_per_s"], 2 * 7 / 8 * 256e6 / 5.121e-3)
    for more, message in (((), "does not reduce"), (("--profile", "astra_sim"), "in_network")):
        done = collective(*more, **one)
        assert done.code == 2
        assert message in done.err
    for topology in ("ring", "fully_connected"):
        done = collective("--in-network-reduction", topology=topology, algorithm="in_network")
        assert done.code == 2
        assert "no dimension has a switch" in done.err


def test_the_flag_alone_runs_in_network_on_switches_and_suits_the_others() -> None:
    two = {"topology": "ring,switch", "npus": "4,8", "bandwidth": "200 GB/s, 50 GB/s", "latency": "500 ns,1 us"}
    alone, named = (collective("--json", "--in-network-reduction", *more, **two).keys for more in ((), NAMED))
    assert alone == named
    assert alone["algorithm"] == ["ring", "in_network"]
    assert alone["time_ns"] < collective("--json", **two).keys["time_ns"]


NAMED = ("--algorithm", "ring,in_network")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--algorithm", "halving_doubling"), "nothing changes"),
        (("--algorithm", "Direct"), "nothing changes"),
        (("--profile", "astra_sim"), "has no switch that reduces"),
        (("--algorithm", "in_network", "--profile", "astra_sim_aware"), "has no switch that reduces"),
    ],
)
def test_the_flag_without_an_effect_is_refused(more: tuple[str, ...], message: str) -> None:
    done = collective("--in-network-reduction", *more, topology="switch", npus="8")
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "--in-network-reduction" in done.err
