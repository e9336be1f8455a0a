"""What a notebook shows of a trace beside the results themselves: the whole report, and charts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nsys_deepprof.reports.charts import Drawing
    from nsys_deepprof.trace import Trace

REPORT_HEIGHT_PX = 900


@dataclass(frozen=True)
class Report:
    """The HTML report: `html` is the page, one self-contained file; a notebook shows it inline."""

    html: str

    def _repr_html_(self) -> str:
        from nsys_deepprof.reports.inline import framed

        return framed(self.html, height_px=REPORT_HEIGHT_PX)


def report(trace: Trace) -> Report:
    """The HTML report of a trace, to be shown inline or written to a file
    (`Path("report.html").write_text(report(trace).html, encoding="utf-8")`)."""
    from nsys_deepprof.analyses.report_data import report_data
    from nsys_deepprof.reports.html import render

    return Report(render(report_data(trace)))


def charts(trace: Trace) -> dict[str, Drawing]:
    """The report's charts that stand alone, as Altair objects by name.

    `iterations of LANE`: the time of each iteration by state. `anatomy of LANE`: the median
    iteration. `queue depth of LANE`: launches that wait. `gap causes`: idle time by cause and
    length. `copies`: size against throughput. A chart is absent where the trace has nothing to
    draw.
    """
    from nsys_deepprof.analyses.report_data import Section, report_data
    from nsys_deepprof.reports import charts as draw
    from nsys_deepprof.reports import iteration_charts

    data = report_data(trace)
    drawings: dict[str, Drawing] = {}
    if isinstance(data.iterations, Section):
        columns = data.iterations.frames["columns"]
        for (lane,), mine in columns.group_by("lane", maintain_order=True):
            drawings[f"iterations of {lane}"] = iteration_charts.iteration_times(mine)
    for one in data.anatomies:
        drawings[f"anatomy of {one.lane}"] = iteration_charts.anatomy(one)
    if isinstance(data.launches, Section):
        depths = data.launches.frames["depths"]
        for (lane,), mine in depths.group_by("lane", maintain_order=True):
            drawings[f"queue depth of {lane}"] = draw.queue_depth(mine, data.origin_ns)
    if isinstance(data.gaps, Section) and data.gaps.frames["histogram"].height:
        histogram = data.gaps.frames["histogram"]
        drawings["gap causes"] = draw.gap_histogram(histogram, weight="total_ns")
    if isinstance(data.copies, Section) and data.copies.frames["points"].height:
        kinds = data.copies.result.extra["kinds"]
        drawings["copies"] = draw.copies(data.copies.frames["points"], kinds)
    return drawings
