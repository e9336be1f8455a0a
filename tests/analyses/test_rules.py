"""The list of rules: complete, disjoint, documented, and silent where it has to be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pytest

import nsys_deepprof as nd
from fixtures.builder import Export
from nsys_deepprof.analyses.lost_time import KINDS, SCHEMA
from nsys_deepprof.rules import RULES
from nsys_deepprof.rules.finding import EVIDENCE, HIGH_SHARE, MIN_SHARE, Evidence, by_place

if TYPE_CHECKING:
    from pathlib import Path

MS = 1_000_000
WALL_NS = 1_000 * MS


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    built = Export().launch((0, 10), (20, 30)).launch((40, 50), (60, 70))
    trace = nd.open_trace(built.write(tmp_path / "x.sqlite"))
    return Evidence(
        trace=trace,
        pieces=pl.DataFrame(schema=SCHEMA),
        wall_ns=WALL_NS,
        compute_ns=0,
        comm_ns=0,
        memset_ns=0,
        iterations=0,
        memory_kinds=True,
    )


def pieces(kind: str, lost_ns: list[int], *, copies: bool = False) -> pl.DataFrame:
    count = len(lost_ns)
    at = [number * 10 * MS for number in range(count)]
    values: dict[str, object] = {
        "kind": [kind] * count,
        "gpu": [0] * count,
        "start_ns": at,
        "end_ns": [start + ns for start, ns in zip(at, lost_ns, strict=True)],
        "event_ns": at,
        "idle_ns": [0] * count if copies else lost_ns,
        "copy_ns": lost_ns if copies else [0] * count,
        "prev_op": ["before"] * count,
        "next_op": ["after"] * count,
        "what": ["cudaSomething"] * count,
        "nvtx": ["range 1"] * count,
        "iteration": [None] * count,
        "direction": ["HtoD"] * count if "copy" in kind or kind == "readback" else [None] * count,
        "bytes": [1 << 20] * count if copies else [None] * count,
        "copy_time_ns": lost_ns if copies else [None] * count,
        "host_ns": [None] * count,
    }
    return pl.DataFrame(
        [pl.Series(name, values[name], dtype=dtype, strict=False) for name, dtype in SCHEMA.items()]
    )


COPIES = {kind for kind in KINDS if "copy" in kind} | {"migration", "readback"}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "unknown"])
def test_each_kind_of_lost_time_belongs_to_exactly_one_rule(kind: str, evidence: Evidence) -> None:
    lost = pieces(kind, [20 * MS] * 5, copies=kind in COPIES)
    given = replace(evidence, pieces=lost)
    speaking = {rule.__name__: list(rule(given)) for rule in RULES}
    found = [finding for findings in speaking.values() for finding in findings]
    assert sum(1 for findings in speaking.values() if findings) == 1
    assert sum(f.recoverable_ns or 0 for f in found) == 100 * MS
    for finding in found:
        assert finding.occurrences == 5
        assert "10.0 % of GPU time" in finding.title
        assert finding.advice.endswith((".", ")"))
        assert set(finding.evidence) <= set(EVIDENCE)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "unknown"])
def test_no_rule_speaks_below_its_threshold(kind: str, evidence: Evidence) -> None:
    just_below = round(MIN_SHARE * WALL_NS) - 5
    lost = pieces(kind, [just_below // 5] * 5, copies=kind in COPIES)
    given = replace(evidence, pieces=lost)
    assert [f for rule in RULES for f in rule(given)] == []


def test_unknown_time_is_claimed_by_no_rule(evidence: Evidence) -> None:
    given = replace(evidence, pieces=pieces("unknown", [100 * MS] * 5))
    assert [f for rule in RULES for f in rule(given)] == []


def test_every_rule_says_its_formula() -> None:
    for rule in RULES:
        assert rule.__doc__
        assert "Formula: " in " ".join(rule.__doc__.split()), rule.__name__
    assert len({rule.__name__ for rule in RULES}) == len(RULES)


def test_places_split_a_rule_without_loss_or_overlap(evidence: Evidence) -> None:
    lost = pieces("synchronise", [30 * MS, 30 * MS, 30 * MS, 25 * MS, 4 * MS, 4 * MS, 150 * MS])
    named = lost.with_columns(
        pl.Series("prev_op", ["a", "a", "a", "b", "c", "c", "d"], dtype=pl.Categorical)
    )
    given = replace(evidence, pieces=named)
    groups = list(by_place(given, given.of("synchronise")))
    assert sum(int(group["lost_ns"].sum()) for group, _ in groups) == 273 * MS
    alone = [group["prev_op"].cast(pl.String).unique().to_list() for group, one in groups if one]
    # d costs much at once, a returns; b and c do neither.
    assert alone == [["d"], ["a"]]
    assert 150 * MS >= HIGH_SHARE * WALL_NS


@pytest.mark.parametrize(("compute_ms", "told"), [(85, True), (95, False)])
def test_a_run_that_mostly_computes_hears_nothing_of_gaps(
    tmp_path: Path, compute_ms: int, told: bool
) -> None:
    length = compute_ms * MS // 10
    gap = (100 - compute_ms) * MS // 10
    built = Export()
    for turn in range(10):
        at = turn * 10 * MS
        built.launch((at, at + 5_000), (at + 5_000, at + 5_000 + length))
    trace = nd.open_trace(built.write(tmp_path / "x.sqlite"))
    result = nd.findings(trace)
    assert result.extra["idle_ns"] == 9 * gap
    assert (result.frame.height > 0) == told
    assert any("Nothing found" in note for note in result.notes) != told


def test_findings_claim_less_than_was_lost_and_bound_the_gain(tmp_path: Path) -> None:
    built = Export()
    for turn in range(20):
        at = turn * 10 * MS
        built.launch((at, at + 5_000), (at + 5_000, at + 5 * MS))
    result = nd.findings(nd.open_trace(built.write(tmp_path / "x.sqlite")))
    extra, top = result.extra, result.frame.row(0, named=True)
    assert extra["recoverable_ns"] <= extra["idle_ns"] + extra["exposed_copy_ns"]
    share = top["recoverable_ns"] / extra["wall_ns"]
    assert top["recoverable_share"] == pytest.approx(share)
    assert top["speedup_max"] == pytest.approx(1 / (1 - share) - 1)
    assert top["severity"] == "high"


def test_a_finding_tells_its_place_in_the_iteration(tmp_path: Path) -> None:
    """In each of 20 iterations of four kernels, the GPU waits 2 ms for the host before `third`."""
    built, at = Export(), 1_000
    for _ in range(20):
        for name in ("first", "second", "third", "fourth"):
            at += 2 * MS if name == "third" else 2_000
            built.launch((at - 1_500, at - 500), (at, at + MS), name)
            at += MS
    trace = nd.open_trace(built.write(tmp_path / "x.sqlite"))
    found = nd.iterations(trace)
    (evidence,) = nd.findings(trace).frame["evidence"]
    (place,) = evidence["places"]
    body = found.extra["anatomy"].filter(pl.col("pattern") == evidence["pattern"])
    assert evidence["pattern_operations"] == 4
    assert body["name"].to_list()[place["position"]] == place["before"] == "third"
    assert place["positions"] == 1
    assert place["times"] == 20


def test_a_place_is_counted_by_its_own_pieces_only(evidence: Evidence) -> None:
    """Pieces that were told apart by place before are counted anew by the place of the finding."""
    lost = pieces("synchronise", [20 * MS] * 5).with_columns(
        prev_op=pl.Series(["a", "a", "a", "b", "c"], dtype=pl.Categorical)
    )
    given = replace(evidence, pieces=lost)
    found = [finding for rule in RULES for finding in rule(given)]
    times = {p["after"]: p["times"] for f in found for p in f.evidence["places"]}  # type: ignore[attr-defined]
    assert times == {"a": 3, "b": 1, "c": 1}
