from __future__ import annotations

from cosmic_opt.api import Problem
from cosmic_opt.reporting.problems import judge_rules


def test_one_rule_alone_keeps_what_it_allows() -> None:
    findings = {finding.rule.name: finding for finding in judge_rules(Problem.load("cosmic/table1-1024").parameter_set)}
    inner = findings["inner"]  # two of the three blocks
    assert inner.keeps is not None
    assert inner.keeps * 3 == 2 * inner.grid
