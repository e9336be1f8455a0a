"""Small archives for tests of batches, and their results as digests."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

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
