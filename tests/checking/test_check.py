"""Rules: read, held against figures, failed with a reason when a figure is not known."""

from __future__ import annotations

import ast
import operator
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nsys_deepprof
from fixtures.builder import Export
from nsys_deepprof import check, info, iterations, open_trace
from nsys_deepprof.checking import OPERATORS, Rule, _row, parse_rule
from nsys_deepprof.errors import UsageError
from nsys_deepprof.metrics import KINDS, Value, metric_names, metric_values
from tests.cli.running import run

if TYPE_CHECKING:
    from nsys_deepprof.trace import Trace

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
ORACLE = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@pytest.fixture(scope="module")
def train() -> Trace:
    return open_trace(FIXTURES / "train.sqlite")


def two_gpus() -> Export:
    """GPU 0 idle for a half, GPU 1 for nine tenths of its window."""
    built = Export().api(0, 1, correlation=99)
    for device, length in ((0, 250), (1, 50)):
        built.kernel(0, length, device).kernel(1_000 - length, 1_000, device)
    return built


@given(
    st.sampled_from(metric_names()),
    st.sampled_from(sorted(ORACLE)),
    st.floats(-1e9, 1e9),
    st.sampled_from(["", " ", "  "]),
    st.booleans(),
)
def test_a_rule_reads_as_it_was_written(
    metric: str, op: str, limit: float, space: str, percent: bool
) -> None:
    text = f"{space}{metric}{space}{op}{space}{limit!r}{'%' if percent else ''}"
    rule = parse_rule(text)
    assert (rule.metric, rule.op) == (metric, op)
    assert rule.limit == pytest.approx(limit / 100 if percent else limit)


@pytest.mark.parametrize(
    "text", ["", "idle_share", "idle_share<", "idle_share=0.1", "<0.1", "idle_share<0.1 ms", "a<b"]
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="METRIC OP NUMBER"):
        parse_rule(text)


def test_an_unknown_figure_is_refused_with_a_list() -> None:
    with pytest.raises(UsageError, match=r"iteration\.p95_ms"):
        parse_rule("iteration.p96_ms<1")
    with pytest.raises(UsageError, match="pageable_copy"):
        parse_rule("finding.pagable_copy==0")


VALUES = st.lists(st.one_of(st.none(), st.integers(-5, 5)), min_size=1, max_size=4)


@given(VALUES, st.sampled_from(sorted(ORACLE)), st.integers(-5, 5))
def test_a_rule_holds_where_every_value_is_known_and_holds(
    values: list[int | None], op: str, limit: int
) -> None:
    given_values = [
        Value(f"gpu {i}", i, v, None if v is not None else "why") for i, v in enumerate(values)
    ]
    row = _row(Rule("r", "idle_share", op, float(limit)), given_values)
    assert row["passed"] == all(v is not None and ORACLE[op](v, limit) for v in values)
    assert set(OPERATORS) == set(ORACLE)
    if None in values:
        assert (row["value"], row["outcome"], row["reason"]) == (None, "unknown", "why")
    elif not row["passed"]:
        # The one that is told does fail, and by how much is right.
        value = values[int(str(row["where"]).split()[1])]
        assert value is not None
        assert not ORACLE[op](value, limit)
        assert row["excess"] == value - limit
        assert str(abs(value - limit)) in str(row["text"])
        distance = max(abs(v - limit) for v in values if not ORACLE[op](v, limit))  # type: ignore[operator]
        assert abs(value - limit) == distance


def test_a_figure_of_gpus_has_to_hold_on_each(tmp_path: Path) -> None:
    trace = open_trace(two_gpus().write(tmp_path / "two.sqlite"))
    result = check(trace, ["idle_share<60%", "gpu0.idle_share<60%", "idle_ns==500", "gpus==2"])
    rows = result.frame.to_dicts()
    assert [row["passed"] for row in rows] == [False, True, False, True]
    assert (rows[0]["where"], rows[0]["value"]) == ("gpu 1", 0.9)
    assert rows[0]["excess"] == pytest.approx(0.3)
    assert rows[0]["excess_share"] == pytest.approx(0.5)
    assert result.extra["passed"] is False
    assert (result.extra["rules"], result.extra["failed"]) == (4, 2)
    with pytest.raises(UsageError, match="there: 0, 1"):
        check(trace, ["gpu7.idle_share<1"])
    with pytest.raises(UsageError, match="whole run"):
        check(trace, ["gpu0.finding.count==0"])


def test_figures_are_those_of_the_commands(train: Trace) -> None:
    def one(metric: str) -> float:
        (value,) = metric_values(train, metric)
        assert value.value is not None
        return value.value

    (gpu,) = info(train).frame.to_dicts()
    assert one("idle_share") == gpu["idle_ns"] / gpu["window_ns"]
    assert one("idle_ms") * 1e6 == pytest.approx(gpu["idle_ns"])
    assert one("idle_ns") == gpu["idle_ns"]
    assert one("utilization") == gpu["utilization"]
    found = iterations(train).frame
    times = sorted(found["duration_ns"].to_list())
    assert one("iteration.count") == len(times)
    assert one("iteration.median_s") == pytest.approx(np.median(times) / 1e9)
    assert one("iteration.max_us") == times[-1] / 1e3
    assert times[-3] <= one("iteration.p95_ns") <= times[-1]
    assert one("iteration.outliers") == found["outlier"].sum()
    findings = nsys_deepprof.findings(train)
    kinds = findings.frame["kind"].to_list()
    assert one("finding.count") == len(kinds)
    for kind in KINDS:
        assert one(f"finding.{kind}") == kinds.count(kind)
    assert one("finding.recoverable_ns") == findings.extra["recoverable_ns"]
    severe = [one(f"finding.{severity}") for severity in ("high", "medium", "low")]
    assert sum(severe) == len(kinds)


def test_every_figure_has_a_value_or_a_reason(train: Trace, tmp_path: Path) -> None:
    empty = open_trace(Export(all_tables=True).write(tmp_path / "empty.sqlite"))
    for trace in (train, empty):
        for metric in metric_names():
            for value in metric_values(trace, metric):
                assert (value.value is None) == (value.reason is not None), metric


def test_what_could_not_be_looked_at_fails_and_is_not_zero(tmp_path: Path) -> None:
    no_gpu = open_trace(Export().api(1, 2).write(tmp_path / "no_gpu.sqlite"))
    no_calls = open_trace(Export().kernel(1, 2).write(tmp_path / "no_calls.sqlite"))
    rules = ["idle_share<=1", "iteration.count>=0", "finding.sync_copy==0", "finding.count>=0"]
    assert check(no_gpu, rules).frame["outcome"].to_list() == ["unknown"] * 4
    told = check(no_calls, rules).frame.to_dicts()
    assert [row["outcome"] for row in told] == ["passed", "passed", "unknown", "passed"]
    assert "memcpys" in told[2]["text"]
    assert check(no_calls, ["iteration.p95_ms<1"]).frame["outcome"].to_list() == ["unknown"]


def test_every_kind_of_finding_is_known() -> None:
    """The kinds are those that the rules' sources name."""
    root = Path(nsys_deepprof.__file__).parent / "rules"
    kinds: set[str] = set()
    for path in root.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "kind":
                kinds |= {c.value for c in ast.walk(node.value) if isinstance(c, ast.Constant)}
            if isinstance(node, ast.For) and "kind" in ast.unparse(node.target):
                kinds |= {
                    pair.elts[0].value
                    for pair in ast.walk(node.iter)
                    if isinstance(pair, ast.Tuple) and isinstance(pair.elts[0], ast.Constant)
                }
    assert kinds == set(KINDS)


def test_the_command_ends_with_its_status_and_writes_junit(tmp_path: Path) -> None:
    path = two_gpus().write(tmp_path / "two & <odd>.sqlite")
    assert run("check", path, "--rule", "idle_share<=0.9").code == 0
    assert run("check", path).code == 2
    assert run("check", path, "--rule", "idl<1").code == 2
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[rules]\n"not idle" = "idle_share < 10 %"\nruns = "kernels >= 2"\n'
        'steady = "iteration.p95_ms <= 1"\n',
        encoding="utf-8",
    )
    junit = tmp_path / "junit.xml"
    ran = run("check", path, "--rules", rules, "--rule", "gpus==2", "--junit", junit,
              "--format", "json")  # fmt: skip
    assert ran.code == 1
    outcomes = {row["rule"]: row["outcome"] for row in ran.json()["rows"]}
    assert outcomes == {
        "not idle": "failed",
        "runs": "passed",
        "steady": outcomes["steady"],
        "gpus==2": "passed",
    }
    suite = ElementTree.parse(junit).getroot()
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert set(cases) == set(outcomes)
    for name, outcome in outcomes.items():
        told = [child.tag for child in cases[name]]
        assert told == {"passed": [], "failed": ["failure"], "unknown": ["error"]}[outcome]
    failures = sum(outcome == "failed" for outcome in outcomes.values())
    assert (suite.get("tests"), suite.get("failures")) == ("4", str(failures))
    assert "over the limit by" in str(cases["not idle"][0].get("message"))


@pytest.mark.parametrize("text", ["rules = []", "rules = 3", "x = 1", "rules = ['a", "[rules]"])
def test_a_file_without_rules_is_refused(tmp_path: Path, text: str) -> None:
    path = two_gpus().write(tmp_path / "two.sqlite")
    rules = tmp_path / "rules.toml"
    rules.write_text(text, encoding="utf-8")
    ran = run("check", path, "--rules", rules)
    assert ran.code == 3
    assert ran.err.count("\n") == 1
    assert run("check", path, "--rules", tmp_path / "none.toml").code == 3
