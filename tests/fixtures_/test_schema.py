"""The tables of each schema generation against real exports of it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from fixtures.schema import table_columns

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REAL = {
    "openacc_solver": "2020",
    "cuda_2020_no_metadata": "2021",
    "pytorch_forward_2021": "2.9",
    "no_cuda_nvtx_only": "3.0",
    "eighteen_streams_2023": "3.4",
    "transformer_train_nvtx_2024": "3.16",
    "llm_graph_replay_2024": "3.16",
    "cuda_loop_2025": "3.20",
    "h100_diffusion_2gpu_before": "3.25",
    "ddp_train_2gpu_2026": "3.27",
}


@pytest.mark.parametrize("name", sorted(REAL))
def test_columns_are_those_of_real_exports(name: str, real_trace: Callable[[str], Path]) -> None:
    ours = table_columns(REAL[name])
    checked = set()
    with closing(sqlite3.connect(f"file:{real_trace(name)}?immutable=1", uri=True)) as connection:
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        for (table,) in connection.execute(query).fetchall():
            if table not in ours:
                assert table.startswith(("ENUM_", "NVTX_PAYLOAD_")), table
                continue
            rows = connection.execute(f'PRAGMA table_info("{table}")').fetchall()
            real = [(name, kind, bool(not_null)) for _, name, kind, not_null, *_ in rows]
            made = [(c.name, c.type, c.not_null) for c in ours[table]]
            assert real == made, table
            checked.add(table)
    assert len(checked) > 3
