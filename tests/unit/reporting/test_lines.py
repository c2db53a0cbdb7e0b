"""Fast lines say what the plain encoders say."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from hypothesis import given, settings

from cosmic_opt.api import Problem
from cosmic_opt.errors import SpecError
from cosmic_opt.reporting.designs import designs_keys
from cosmic_opt.reporting.lines import CsvLines, JsonLines
from cosmic_opt.reporting.metric_columns import MetricColumn
from tests.strategies import FOCUSES, Source, sources, whole_grid

LLAMA = "llama3-405b/h100-16k"


def metrics(rows: int) -> list[MetricColumn]:
    values = np.arange(rows) / 3
    known = np.arange(rows) % 2 == 0
    return [MetricColumn("time_s", values, known), MetricColumn("parts", np.arange(rows), np.ones(rows, dtype=bool))]


@pytest.mark.parametrize("focus", FOCUSES)
def test_lines_of_a_generated_problem_are_those_of_the_plain_encoders(focus: str) -> None:
    @settings(derandomize=True, deadline=None, max_examples=20)
    @given(sources(focus))
    def check(source: Source) -> None:
        parameter_set = source.bind()
        batch = parameter_set.batch(whole_grid(parameter_set)[:200])
        added = metrics(len(batch))
        extra = [{column.name: column.plain()[at] for column in added} for at in range(len(batch))]
        expected = [keys | more for keys, more in zip(designs_keys(batch), extra, strict=True)]
        text = JsonLines(parameter_set).text(batch, added)
        assert text == "".join(f"{json.dumps(keys)}\n" for keys in expected)
        assert JsonLines(parameter_set).text(batch) == "".join(f"{json.dumps(k)}\n" for k in designs_keys(batch))
        table = CsvLines(parameter_set)
        rows = csv.DictReader(io.StringIO(table.header(["time_s", "parts"]) + table.text(batch, added), newline=""))
        shown = [point | more for point, more in zip(batch.points(), extra, strict=True)]
        assert list(rows) == [{k: "" if v is None else str(v) for k, v in row.items()} for row in shown]

    check()


def test_blocks_hold_their_ranks_and_a_head_ends_after_its_last_design() -> None:
    source = Problem.load(LLAMA).require("step_time <= 6 s").designs("step_time")
    block = source.block(100, 400)
    assert 0 < len(block.batch) < 300
    assert (block.metrics[0].values <= 6).all()
    head = block.head(5)
    assert len(head.batch) == len(head.metrics[0].values) == 5
    assert head.last == 100 + int(block.offsets[4]) + 1
    rest = source.block(head.last, 400)
    assert np.array_equal(np.concatenate([head.batch.codes, rest.batch.codes]), block.batch.codes)


@pytest.mark.parametrize("limit", [None, 1, 99, 100, 101, 5000])
def test_blocks_are_cut_at_multiples_and_add_up_to_the_limit(limit: int | None) -> None:
    source = Problem.load(LLAMA).designs()
    blocks = list(source.blocks(30, limit, 100))
    number = 968 - 30 if limit is None else min(limit, 968 - 30)
    assert sum(len(block.batch) for block in blocks) == number
    assert blocks[-1].last == 30 + number
    assert all(block.first % 100 == 0 for block in blocks[1:])


@pytest.mark.parametrize("name", ["", "step", "tp", "memory_capacity", "STEP_TIME"])
def test_an_unknown_metric_is_refused_with_a_hint(name: str) -> None:
    with pytest.raises(SpecError, match="unknown metric") as caught:
        Problem.load(LLAMA).designs(name)
    assert caught.value.hint


def test_a_token_names_the_problem_and_the_rank() -> None:
    problem = Problem.load(LLAMA)
    token = problem.designs().token(17)
    assert problem.designs("step_time").read_token(token) == 17
    with pytest.raises(SpecError, match="another problem"):
        problem.fix(tp=8).designs().read_token(token)
