"""The page of an archive in a real browser: it draws, it answers, and names do nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nsys_deepprof.batch import job
from nsys_deepprof.batch.plan import BatchInput
from nsys_deepprof.batch.run import run_batch
from tests.batch.archive import training_export
from tests.batch.engine import here

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "</script><script>window.ran = 1</script><img src=x onerror='window.ran = 2'>\u202e\u2028"


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of two GPUs with hostile names everywhere, and a failed run."""
    folder = tmp_path_factory.mktemp("trend")
    source = folder / "<b>&'\"x"
    source.mkdir()
    inputs = []
    for day in range(12):
        for gpu in ("A", HOSTILE):
            export = training_export(
                day,
                gpu=gpu,
                kernels={"gemm": f"gemm{HOSTILE}", "attention": "flash_fwd"},
                slow_gemm_ns=30_000 if day >= 6 else 0,
                turns=4,
            )
            file = export.write(source / f"{gpu[:1] == 'A'}{day}.sqlite")
            inputs.append(BatchInput(str(file), {"who": HOSTILE, "half": str(day % 2)}))
    (source / "bad.sqlite").write_text("nothing")
    inputs.append(BatchInput(str(source / "bad.sqlite"), {HOSTILE: HOSTILE}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "_report", lambda trace: "<!doctype html><title>report</title>")
        run_batch(inputs, folder / "out", engine=here)
    return folder / "out" / "index.html"


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (360, True)])
def test_all_charts_draw_and_names_do_nothing(
    page_file: Path, open_page: Any, width: int, dark: bool
) -> None:
    page = open_page(page_file, width=width, dark=dark)
    drawn = page.run(
        "return [...document.querySelectorAll('[data-chart]')].map((place) =>"
        " [place.id, place.querySelectorAll('svg path, svg rect').length])"
    )
    assert {"work0-time", "work0-states0", "work0-idle0"} <= {name for name, _ in drawn}
    assert all(marks > 0 for _, marks in drawn), drawn
    assert page.messages() == []
    assert page.requests() == []
    assert page.run("return deepprof.errors") == []
    assert page.run("return window.ran ?? null") is None
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.run(wide) == 0


def test_runs_are_found_and_lead_to_their_reports(page_file: Path, open_page: Any) -> None:
    page = open_page(page_file)
    page.run(
        "const box = document.querySelector('input[data-filter=runs-table]');"
        "box.value = 'failed'; box.dispatchEvent(new Event('input'))"
    )
    shown = page.run(
        "return [...document.querySelectorAll('#runs-table tbody tr')]"
        ".filter((row) => !row.hidden).map((row) => row.textContent)"
    )
    assert len(shown) == 1
    assert "bad.sqlite" in shown[0]
    link = page.run("return document.querySelector('#runs-table a').href")
    page.driver.get(link)
    page.wait("return document.title === 'report'")
