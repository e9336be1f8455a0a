"""What the catalogue's tables hold: every column with its SQL type and its meaning."""

from __future__ import annotations

from typing import NamedTuple

from nsys_deepprof.analyses.gaps import CAUSES


class Column(NamedTuple):
    """A column: the Python type that sqlite-utils makes a SQL type of, and the meaning."""

    type: type
    meaning: str


_RUN_ID = Column(str, "the run: digest of its content and path; its files are in runs/RUN_ID/")

_STATES = {
    "window_ns": Column(int, "first start to last end of GPU work; a run's: sum over its GPUs"),
    "compute_ns": Column(int, "time in which a compute kernel runs"),
    "comm_ns": Column(int, "time in which communication kernels run and no compute"),
    "copy_ns": Column(int, "exposed copy: time in which copies run and no kernel"),
    "memset_ns": Column(int, "time in which only memsets run"),
    "idle_ns": Column(int, "time in which nothing runs; the five states add up to window_ns"),
    "utilization": Column(float, "(compute_ns + comm_ns) / window_ns"),
    "copy_share": Column(float, "copy_ns / window_ns"),
    "idle_share": Column(float, "idle_ns / window_ns"),
    **{
        f"idle_{cause}_ns": Column(int, f"part of idle_ns caused by: {cause.replace('_', ' ')}")
        for cause in CAUSES
    },
    "kernels": Column(int, "kernel executions"),
    "memcpys": Column(int, "memory copies"),
    "memsets": Column(int, "memsets"),
}

_ITERATIONS = {
    "pattern": Column(str, "id of the repeated work that is the iteration; equal ids, equal work"),
    "iterations": Column(int, "iterations found; 0 where nothing repeats enough"),
    "iteration_median_ns": Column(float, "median of the iterations' durations"),
    "iteration_p95_ns": Column(float, "95th percentile of the iterations' durations"),
    "iteration_mean_ns": Column(float, "mean of the iterations' durations"),
    "iteration_outliers": Column(int, "iterations that are slower than the others"),
}

_ITERATION_STATES = {
    f"iteration_{state}_ns": Column(float, f"mean time within an iteration in state {state}")
    for state in ("compute", "comm", "copy", "memset", "idle")
}

TABLES: dict[str, dict[str, Column]] = {
    "runs": {
        "run_id": _RUN_ID,
        "position": Column(int, "place in the batch's input, from 0"),
        "path": Column(str, "where the run was read from"),
        "fingerprint": Column(str, "digest of the content; null where it could not be read"),
        "size_bytes": Column(int, "size of the source"),
        "same_content_as": Column(str, "run_id of the first run with the same content, if earlier"),
        "capture_start_utc": Column(str, "when the capture started, ISO 8601; null when not told"),
        "capture_start_utc_ns": Column(int, "the same in ns since 1970"),
        "nsys_version": Column(str, "version of nsys that wrote the export"),
        "schema_version": Column(str, "schema version of the export"),
        "status": Column(str, "ok; empty: read, and without GPU activity; failed: see error"),
        "error": Column(str, "why the run failed; its figures are null"),
        "gpus": Column(int, "GPUs with work"),
        "gpu_names": Column(str, "their distinct names"),
        **_STATES,
        **_ITERATIONS,
        "blocking_copies": Column(int, "copies that block the host"),
        "host_blocked_ns": Column(int, "time in which copies block threads"),
        "findings": Column(int, "findings, the most recoverable time first"),
        "recoverable_ns": Column(int, "GPU time that acting on all findings can give back at most"),
        "recoverable_share": Column(float, "the same as a share of the analysed time"),
        "top_finding": Column(str, "title of the first finding"),
        "top_finding_kind": Column(str, "kind of the first finding"),
        "warnings": Column(str, "what cannot be trusted: a JSON list of texts"),
        "tags": Column(str, "the run's tags: a JSON object"),
        "dataset": Column(str, "its dataset, from the catalogue's folder or absolute"),
        "report": Column(str, "its report, from the catalogue's folder"),
    },
    "gpus": {
        "run_id": _RUN_ID,
        "gpu": Column(int, "number of the GPU within the run"),
        "name": Column(str, "the GPU's name"),
        "pid": Column(int, "process that uses it (the first of several)"),
        "device_id": Column(int, "CUDA ordinal in that process"),
        "window_start_ns": Column(int, "first start of its work, on the trace's clock"),
        "window_end_ns": Column(int, "last end of its work"),
        **_STATES,
        "lane": Column(str, "the lane of the iterations: GPU, process, context and stream"),
        **_ITERATIONS,
        **_ITERATION_STATES,
    },
    "patterns": {
        "run_id": _RUN_ID,
        "lane": Column(str, "GPU, process, context and stream"),
        "pattern": Column(str, "id: equal ids are the same work, in any run"),
        "parent": Column(str, "id of the pattern that this one is a part of"),
        "depth": Column(int, "how deep in the loop nest, from 0"),
        "length": Column(int, "operations in one occurrence"),
        "occurrences": Column(int, "occurrences that do not overlap"),
        "coverage_ns": Column(int, "lane time that they cover"),
        "coverage_share": Column(float, "the same as a share of the lane's time"),
        "mean_ns": Column(float, "mean duration of an occurrence"),
        "median_ns": Column(float, "median duration"),
        "p95_ns": Column(float, "95th percentile of the durations"),
        "first_start_ns": Column(int, "start of the first occurrence"),
    },
    "findings": {
        "run_id": _RUN_ID,
        "rank": Column(int, "1 is the finding with the most recoverable time"),
        "kind": Column(str, "which rule found it"),
        "title": Column(str, "what it is, with its numbers"),
        "severity": Column(str, "by the share of the wall time"),
        "recoverable_ns": Column(int, "GPU time that it accounts for: a ceiling of the gain"),
        "recoverable_share": Column(float, "the same as a share of the analysed time"),
        "occurrences": Column(int, "how often it happens"),
        "where": Column(str, "its place in the pattern or the ranges"),
        "advice": Column(str, "what to try"),
        "evidence": Column(str, "the figures behind it, JSON"),
    },
    "tags": {
        "run_id": _RUN_ID,
        "key": Column(str, "name of the tag"),
        "value": Column(str, "its value"),
    },
    "columns": {
        "table": Column(str, "a table or view of this file"),
        "column": Column(str, "a column of it; null: the text is about the table or view"),
        "meaning": Column(str, "what it holds"),
    },
}

TABLE_MEANINGS = {
    "runs": "One row a run, in the order of the input. Figures of failed runs are null.",
    "gpus": "One row a GPU of a run.",
    "patterns": "One row a repeated pattern of a lane of a run.",
    "findings": "One row a finding of a run.",
    "tags": "One row a tag of a run.",
    "columns": "What each table and column holds.",
}

VIEWS: dict[str, tuple[str, str]] = {
    "run_overview": (
        "Runs as people read them: milliseconds and percent.",
        """
        SELECT run_id, path, capture_start_utc, gpu_names, status, error, iterations,
               round(iteration_median_ns / 1e6, 3) AS iteration_median_ms,
               round(100.0 * utilization, 1) AS busy_percent,
               round(100.0 * copy_share, 1) AS exposed_copy_percent,
               round(100.0 * idle_share, 1) AS idle_percent,
               top_finding, report
        FROM runs ORDER BY position
        """,
    ),
    "failed_runs": (
        "Runs that failed, and why.",
        "SELECT run_id, path, error FROM runs WHERE status = 'failed' ORDER BY position",
    ),
    "same_content": (
        "Runs whose content is that of an earlier one.",
        """
        SELECT again.run_id, again.path, first.run_id AS first_run_id, first.path AS first_path
        FROM runs AS again JOIN runs AS first ON first.run_id = again.same_content_as
        ORDER BY again.position
        """,
    ),
    "iteration_time": (
        "The same work over time: iteration time by pattern and GPU, in order of capture.",
        """
        SELECT gpus.pattern, gpus.name AS gpu_name, runs.capture_start_utc, gpus.run_id, gpus.gpu,
               gpus.iterations, gpus.iteration_median_ns, gpus.iteration_p95_ns, runs.path
        FROM gpus JOIN runs USING (run_id)
        WHERE gpus.pattern IS NOT NULL
        ORDER BY gpus.pattern, gpus.name, runs.capture_start_utc_ns, runs.position, gpus.gpu
        """,
    ),
    "work_by_gpu": (
        "The same work on different GPUs: fastest, mean and slowest median iteration.",
        """
        SELECT pattern, name AS gpu_name, count(DISTINCT run_id) AS runs,
               min(iteration_median_ns) AS fastest_ns, avg(iteration_median_ns) AS mean_ns,
               max(iteration_median_ns) AS slowest_ns,
               1.0 * sum(copy_ns) / sum(window_ns) AS copy_share,
               1.0 * sum(idle_ns) / sum(window_ns) AS idle_share
        FROM gpus WHERE pattern IS NOT NULL
        GROUP BY pattern, name ORDER BY pattern, fastest_ns
        """,
    ),
    "finding_kinds": (
        "What costs the most over all runs: findings by kind.",
        """
        SELECT kind, count(DISTINCT run_id) AS runs, count(*) AS findings,
               sum(recoverable_ns) AS recoverable_ns, max(recoverable_share) AS worst_share
        FROM findings GROUP BY kind ORDER BY sum(recoverable_ns) DESC, kind
        """,
    ),
    "idle_causes": (
        "Idle time of each run by cause, as a share of its window.",
        " UNION ALL ".join(
            "SELECT run_id, '" + cause + "' AS cause, idle_" + cause + "_ns AS idle_ns, "
            "1.0 * idle_" + cause + "_ns / window_ns AS share FROM runs "
            "WHERE idle_" + cause + "_ns > 0"
            for cause in CAUSES
        ),
    ),
    "common_patterns": (
        "Patterns that several runs have.",
        """
        SELECT pattern, count(DISTINCT run_id) AS runs, max(length) AS length,
               sum(occurrences) AS occurrences, min(median_ns) AS fastest_median_ns,
               max(median_ns) AS slowest_median_ns
        FROM patterns GROUP BY pattern HAVING count(DISTINCT run_id) > 1
        ORDER BY runs DESC, length DESC, pattern
        """,
    ),
}
