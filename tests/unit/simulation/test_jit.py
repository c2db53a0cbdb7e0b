"""How functions are compiled: once, whatever calls them, and never with stale or missing parts."""

import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from cosmic_opt.simulation.analytical._jit import jit, jit_apart, jit_inline
from cosmic_opt.simulation.analytical.tables import IntArray

MODULE = """
from cosmic_opt.simulation.analytical._jit import jit, jit_apart

@jit_apart
def total(values):
    result = 0
    for value in values:
        result += value
    return result

@jit
def twice(values):
    return 2 * total(values)
"""
CALL = "import numpy, kernels; print(kernels.twice(numpy.arange(5)), kernels.twice.stats.cache_hits)"


@jit_apart
def weighted(values: IntArray, weight: int, flag: bool) -> int:
    total = 0
    for value in values:
        total += weight * value
    return -total if flag else total


@jit_apart
def outer(values: IntArray, weight: int) -> tuple[int, IntArray]:
    return weighted(values, weight, False) + weighted(values, 1, True), values


@jit_inline
def tenth(values: IntArray) -> int:
    return int(values[0] // 10)


@jit_apart
def refuses(value: int) -> int:
    if value < 0:
        raise ValueError("below zero")
    return value


@jit
def called(values: IntArray) -> int:
    return outer(values, 3)[0] + outer(values, 5)[1][-1] + tenth(values)


@jit
def forwards(value: int) -> int:
    return refuses(value) + 1


def test_a_function_apart_is_what_python_computes() -> None:
    values = np.array([20, 4, 5], dtype=np.int64)
    assert called(values) == (3 - 1) * 29 + 5 + 2


def test_an_error_in_a_function_apart_reaches_the_caller() -> None:
    assert forwards(1) == 2
    with pytest.raises(ValueError, match="below zero"):
        forwards(-1)


@pytest.mark.parametrize("function", [refuses, tenth])
def test_python_cannot_call_what_has_no_entry_for_it(function: object) -> None:
    with pytest.raises(NotImplementedError):
        function(1)  # type: ignore[operator]


def test_constants_make_no_forms_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = numba.njit
    monkeypatch.setattr(numba, "njit", lambda **options: compiler(**{**options, "cache": False}))

    @jit
    def plus(value: int, more: int) -> int:
        return value + more

    @jit
    def constants(value: int) -> int:
        return plus(value, 1) + plus(value, 2) + plus(3, value) + plus(4, 5)

    assert constants(10) == 11 + 12 + 13 + 9
    assert len(plus.signatures) == 1  # type: ignore[attr-defined]


def test_an_array_passed_on_is_released() -> None:
    values = np.arange(3)
    before = sys.getrefcount(values)
    for _ in range(100):
        called(values)
    assert sys.getrefcount(values) == before


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    (tmp_path / "kernels.py").write_text(MODULE)
    return tmp_path


def run(folder: Path, call: str = CALL, **more: str) -> str:
    """Call the compiled function in a new process that keeps compiled forms in `folder`."""
    path = os.pathsep.join((str(folder), *sys.path))
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": path, **more}
    done = subprocess.run([sys.executable, "-c", call], env=environment, text=True, capture_output=True, check=True)
    return done.stdout


def test_a_caller_from_the_cache_finds_what_is_apart_or_compiles_it_again(kernels: Path) -> None:
    assert run(kernels) == "20 Counter()\n"
    hit = run(kernels)
    assert hit.startswith("20 Counter({")
    for path in (kernels / "cache").rglob("kernels.total*"):
        path.unlink()
    assert run(kernels) == hit


def test_a_caller_of_a_caller_from_the_cache_finds_what_is_apart(kernels: Path) -> None:
    """Three processes: `twice` is compiled; `again` is compiled with `twice` from the cache; both are loaded."""
    with (kernels / "kernels.py").open("a") as file:
        file.write("\n\n@jit\ndef again(values):\n    return 1 + twice(values)\n")
    call = CALL.replace("twice", "again")
    assert run(kernels).startswith("20 ")
    assert run(kernels, call) == "21 Counter()\n"
    assert run(kernels, call).startswith("21 Counter({")


def test_a_changed_function_apart_is_not_the_old_one(kernels: Path) -> None:
    assert run(kernels).startswith("20 ")
    (kernels / "kernels.py").write_text(MODULE.replace("result += value", "result += 10 * value"))
    assert run(kernels) == "200 Counter()\n"


@pytest.mark.parametrize("where", [{"NUMBA_DISABLE_JIT": "1"}, {"NUMBA_CACHE_DIR": "/proc/no-folder"}])
def test_without_a_compiler_or_a_folder_the_answer_is_the_same(kernels: Path, where: dict[str, str]) -> None:
    assert run(kernels, "import numpy, kernels; print(kernels.twice(numpy.arange(5)))", **where) == "20\n"


@pytest.mark.parametrize("most", [0, 2000])
def test_where_compiled_forms_cannot_be_written_the_answer_is_the_same_and_nothing_is_left(
    kernels: Path, most: int
) -> None:
    """Of at most 2,000 bytes a file, numba's index can be written, but not the code it names."""
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))\n"
    assert run(kernels, limit + CALL) == "20 Counter()\n"
    assert [path for path in (kernels / "cache").rglob("*") if path.is_file()] == []
    assert run(kernels) == "20 Counter()\n"
    assert run(kernels).startswith("20 Counter({")


def test_a_full_disk_after_some_forms_were_kept_changes_no_answer(kernels: Path) -> None:
    whole = "[kernels.twice(numpy.arange(5)), kernels.twice(numpy.arange(5) / 1)]"
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    call = f"import numpy, kernels; print({whole})"
    assert run(kernels).startswith("20 ")
    assert run(kernels, limit + call) == "[20, 20.0]\n"
    assert run(kernels, call) == "[20, 20.0]\n"


def test_a_function_apart_is_one_of_a_module() -> None:
    def local(value: int) -> int:
        return value

    with pytest.raises(AssertionError):
        jit_apart(local)


def test_each_kind_of_argument_has_its_own_address(kernels: Path) -> None:
    read_only = "values = numpy.arange(5); values.flags.writeable = False"
    every = "[kernels.twice(each) for each in (values, values.copy(), values / 4)]"
    for _ in range(2):  # compiled, then from the cache
        assert run(kernels, f"import numpy, kernels\n{read_only}\nprint({every})") == "[20, 20, 5.0]\n"


def test_functions_of_one_name_in_two_modules_are_two(kernels: Path) -> None:
    (kernels / "others.py").write_text(MODULE.replace("result += value", "result += 10 * value"))
    call = "import numpy, kernels, others; print([each.twice(numpy.arange(5)) for each in (kernels, others, kernels)])"
    assert [run(kernels, call) for _ in range(2)] == ["[20, 200, 20]\n"] * 2
