"""Small archives for tests of batches, and their results as digests."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from fixtures.builder import Export

if TYPE_CHECKING:
    from pathlib import Path

START_NS = 1_780_000_000 * 10**9


def loop_export(turns: int = 6, *, slow_ns: int = 0, day: int = 0, gpu: str = "GPU A") -> Export:
    """A loop of three kernels and a copy, 1 ms a turn; `slow_ns` is added to one kernel."""
    export = Export().gpu(0, gpu).session(START_NS + day * 86_400 * 10**9)
    for turn in range(turns):
        at = turn * (1_000_000 + slow_ns)
        export.launch((at, at + 5_000), (at + 10_000, at + 200_000), "embed")
        export.launch((at + 6_000, at + 9_000), (at + 200_000, at + 500_000 + slow_ns), "matmul")
        late = at + slow_ns
        export.launch((at + 9_000, at + 9_900), (late + 510_000, late + 700_000), "reduce")
        copy = export.correlation()
        export.api(late + 700_000, late + 800_000, correlation=copy, name="cudaMemcpy_v3020")
        export.copy(late + 720_000, late + 780_000, correlation=copy, kind="DtoH", dst="pageable")
    return export


def empty_export() -> Export:
    """API calls and no GPU work."""
    return Export().api(0, 10).api(20, 30)


def truncate(path: Path) -> Path:
    """Cut the last 40 % of a file off."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 6 // 10])
    return path


def digests(out: Path) -> dict[str, str]:
    """A digest of every file of a batch's directory, by its path within."""
    return {
        str(file.relative_to(out)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(out.rglob("*"))
        if file.is_file()
    }


AMPERE = {"gemm": "ampere_sgemm_128x64_tn", "attention": "flash_fwd_kernel<80>(Params)"}
VOLTA = {"gemm": "volta_sgemm_64x64_tn", "attention": "flash_fwd_kernel<70>(Params)"}
LAYERS = 3


def training_export(
    day: int,
    *,
    gpu: str = "NVIDIA A100",
    kernels: dict[str, str] | None = None,
    factor: float = 1.0,
    slow_gemm_ns: int = 0,
    stall_ns: int = 0,
    fused: bool = False,
    turns: int = 10,
) -> Export:
    """Iterations of `LAYERS` layers (norm, gemm, attention), a loss and an optimizer.

    Times are `factor` times those of the first GPU, with noise that `day` seeds. `slow_gemm_ns` is
    added to each gemm, `stall_ns` to the host before each loss; `fused` adds a kernel a layer.
    """
    rng = np.random.default_rng(day)
    names = {"norm": "layer_norm", **(kernels or AMPERE)}
    export = Export().gpu(0, gpu).session(START_NS + day * 86_400 * 10**9)
    at = 0

    def work(name: str, run_ns: float, *, wait_ns: int = 1_000) -> None:
        nonlocal at
        begin = at + wait_ns
        at = begin + round(run_ns * factor * (1 + 0.01 * rng.standard_normal()))
        export.launch((begin - 900, begin - 300), (begin, at), name)

    for _ in range(turns):
        for _ in range(LAYERS):
            work(names["norm"], 20_000)
            work(names["gemm"], 200_000 + slow_gemm_ns)
            work(names["attention"], 120_000)
            if fused:
                work("fused_bias_gelu", 15_000)
        work("cross_entropy", 60_000, wait_ns=20_000 + stall_ns)
        copy = export.correlation()
        export.api(at + 1_000, at + 46_000, correlation=copy, name="cudaMemcpyAsync_v3020")
        export.copy(at + 5_000, at + 45_000, correlation=copy, size=1 << 20, kind="HtoD")
        at += 50_000
        work("adam_multi_tensor", 90_000)
    return export


def write_history(folder: Path, days: int = 24) -> list[Path]:
    """Nightly runs on two GPUs: gemms slower from day 14 on one; a kernel more from day 8 on both.

    Paths are `GPU/bsN/dayNN.sqlite`; batch size 64 takes longer than 32 and runs every other day.
    """
    files = []
    for day in range(days):
        for gpu, kernels, factor in (("A100", AMPERE, 1.0), ("V100", VOLTA, 1.7)):
            for batch in (32, 64) if day % 2 else (32,):
                place = folder / gpu / f"bs{batch}"
                place.mkdir(parents=True, exist_ok=True)
                export = training_export(
                    day,
                    gpu=f"NVIDIA {gpu}",
                    kernels=kernels,
                    factor=factor * (1.8 if batch == 64 else 1),
                    slow_gemm_ns=25_000 if gpu == "A100" and day >= 14 else 0,
                    fused=day >= 8,
                )
                files.append(export.write(place / f"day{day:02}.sqlite"))
    return files


def small_archive(folder: Path, runs: int, *, bad: int) -> list[Path]:
    """Small runs in `folder`, `bad` of them in turn truncated, empty, without GPU, and killers."""
    folder.mkdir()
    kinds = {(2 * turn + 1) * runs // (2 * bad): turn % 4 for turn in range(bad)}
    files = []
    for number in range(runs):
        kind = kinds.get(number)
        name = f"killer{number}" if kind == 3 else f"run{number}"
        file = folder / f"{name}.sqlite"
        if kind == 1:
            file.touch()
        elif kind == 2:
            empty_export().api(100, 200 + number).write(file)
        else:
            training_export(number, turns=4).write(file)
        files.append(truncate(file) if kind == 0 else file)
    return files
