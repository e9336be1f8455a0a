"""Small runs for the command line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fixtures.builder import Export
from tests.cli.running import run

TRAIN = Path(__file__).resolve().parents[2] / "fixtures" / "train.sqlite"


@pytest.fixture(scope="session")
def train(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The training run of the fixtures, alone in a folder of its own."""
    path = tmp_path_factory.mktemp("train") / "train.sqlite"
    shutil.copyfile(TRAIN, path)
    return path


@pytest.fixture(scope="session")
def dataset(train: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, converted."""
    path = tmp_path_factory.mktemp("dataset") / "train.deepprof"
    assert run("convert", train, "-o", path).code == 0
    return path


@pytest.fixture(scope="session")
def no_gpu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Calls of the CUDA API and no work on any GPU."""
    built = Export()
    for name in ("cudaLaunchKernel_v7000", "cudaLaunchKernel_v7000", "cudaGetDeviceCount_v3020"):
        built.api(10, 20, name=name)
    return built.write(tmp_path_factory.mktemp("no_gpu") / "no_gpu.sqlite")


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every table, and no row in any."""
    return Export(all_tables=True).write(tmp_path_factory.mktemp("empty") / "empty.sqlite")
