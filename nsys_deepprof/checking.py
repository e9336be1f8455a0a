"""A gate: rules over the figures of a run, and which of them fail by how much."""

from __future__ import annotations

import operator
import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from nsys_deepprof.analyses.context import with_context
from nsys_deepprof.errors import InputError, UsageError
from nsys_deepprof.metrics import check_metric, metric_values
from nsys_deepprof.result import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from nsys_deepprof.metrics import Value
    from nsys_deepprof.trace import Trace

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}

SCHEMA: dict[str, pl.DataType] = {
    "rule": pl.String(),
    "passed": pl.Boolean(),
    "outcome": pl.Enum(["passed", "failed", "unknown"]),
    "metric": pl.String(),
    "op": pl.String(),
    "limit": pl.Float64(),
    "value": pl.Float64(),
    "excess": pl.Float64(),
    "excess_share": pl.Float64(),
    "where": pl.String(),
    "reason": pl.String(),
    "text": pl.String(),
}

_RULE = re.compile(
    r"\s*([A-Za-z][\w.]*)\s*(<=|>=|==|!=|<|>)\s*"
    r"([+-]?(?:\d+(?:_\d+)*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(%?)\s*"
)
_EXAMPLE = "for example 'idle_share<0.1', 'iteration.p95_ms<=200', 'finding.pageable_copy==0'"


@dataclass(frozen=True)
class Rule:
    """`metric op limit`, which has to hold; `name` is what a rules file calls it, else the text."""

    name: str
    metric: str
    op: str
    limit: float


def parse_rule(text: str, *, name: str | None = None) -> Rule:
    """A rule from its text. A limit in % is a share. Raises UsageError."""
    match = _RULE.fullmatch(text)
    if match is None:
        raise UsageError(f"rule {text!r}", "not METRIC OP NUMBER", _EXAMPLE)
    metric, op, number, percent = match.groups()
    check_metric(metric)
    limit = float(number) / (100 if percent else 1)
    return Rule(name or text.strip(), metric, op, limit)


def read_rules(path: Path) -> list[Rule]:
    """Rules of a TOML file: `rules`, a list of rules, or a table of names and rules.

    Raises InputError where it is no such file, UsageError for a wrong rule.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(path, (error.strerror or str(error)).lower(), "check the path") from error
    except ValueError as error:
        raise InputError(path, f"not TOML: {error}") from error
    rules = content.get("rules")
    if isinstance(rules, list) and rules and all(isinstance(r, str) for r in rules):
        return [parse_rule(text) for text in rules]
    if isinstance(rules, dict) and rules and all(isinstance(r, str) for r in rules.values()):
        return [parse_rule(text, name=name) for name, text in rules.items()]
    raise InputError(path, "no rules", "write rules = ['idle_share<0.1', ...] or a table of them")


@with_context
def check(trace: Trace, rules: Sequence[Rule | str]) -> Result:
    """One row per rule, in order: whether it holds, and by how much it fails.

    A rule over a figure that GPUs or lanes have each has to hold for every one of them; `value`
    and `where` are those of the one that is furthest from holding. A figure that could not be
    computed fails its rule, with the `reason` (`outcome` is then `unknown`): null is not 0.
    `excess` is value - limit where the rule fails, `excess_share` that over the limit (null for a
    limit of 0), `text` the row as a sentence.

    Extra keys: `passed` (all rules hold), `rules`, `failed` (how many). Raises UsageError for a
    rule that cannot be read, or without rules.
    """
    if not rules:
        raise UsageError("check", "no rules", "give --rule or --rules; " + _EXAMPLE)
    parsed = [parse_rule(rule) if isinstance(rule, str) else rule for rule in rules]
    rows = [_row(rule, metric_values(trace, rule.metric)) for rule in parsed]
    failed = sum(not row["passed"] for row in rows)
    extra = {"passed": failed == 0, "rules": len(rows), "failed": failed}
    return Result("check", pl.DataFrame(rows, schema=SCHEMA), extra)


def _row(rule: Rule, values: list[Value]) -> dict[str, object]:
    worst = max(values, key=lambda value: _distance(rule, value))
    passed = worst.value is not None and _holds(rule, worst.value)
    excess = None if passed or worst.value is None else float(worst.value) - rule.limit
    share = excess / abs(rule.limit) if excess is not None and rule.limit else None
    return {
        "rule": rule.name,
        "passed": passed,
        "outcome": "unknown" if worst.value is None else "passed" if passed else "failed",
        "metric": rule.metric,
        "op": rule.op,
        "limit": rule.limit,
        "value": None if worst.value is None else float(worst.value),
        "excess": excess,
        "excess_share": share,
        "where": worst.where,
        "reason": worst.reason,
        "text": _text(rule, worst, passed=passed, excess=excess, share=share),
    }


def _holds(rule: Rule, value: float) -> bool:
    return OPERATORS[rule.op](value, rule.limit)


def _distance(rule: Rule, value: Value) -> float:
    """How far a value is from holding: infinite for an unknown one, negative inside the limit."""
    if value.value is None:
        return float("inf")
    over = float(value.value) - rule.limit
    match rule.op:
        case "<" | "<=":
            return over
        case ">" | ">=":
            return -over
        case "==":
            return abs(over)
        case _:
            return -abs(over)


def _text(
    rule: Rule, worst: Value, *, passed: bool, excess: float | None, share: float | None
) -> str:
    limit = f"{rule.metric} {rule.op} {rule.limit:g}"
    if worst.value is None:
        return f"{limit}: not known ({worst.reason})"
    told = f"{limit}: {worst.value:g} ({worst.where})"
    if passed or excess is None:
        return told
    by = f"{abs(excess):g}" + (f", {100 * abs(share):.1f} % of the limit" if share else "")
    return f"{told}: {'over' if excess > 0 else 'under' if excess < 0 else 'at'} the limit by {by}"
