"""Classes of CUDA API names: exact, whatever suffix the exporter adds."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_deepprof.cuda_api import CLASSES, base_name, classify, with_classes

EXPECTED = {
    "launch": [
        *("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx"),
        *("cudaLaunchCooperativeKernel", "cuLaunchCooperativeKernel", "cudaLaunch"),
        "cudaLaunchCooperativeKernelMultiDevice",
    ],
    "graph_launch": ["cudaGraphLaunch", "cuGraphLaunch"],
    "sync": [
        *("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize"),
        *("cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize"),
        "cudaThreadSynchronize",
    ],
    "sync_copy": [
        *("cudaMemcpy", "cudaMemcpy2D", "cudaMemcpyToSymbol", "cudaMemcpyFromSymbol"),
        *("cuMemcpyDtoH", "cuMemcpyHtoD", "cuMemcpyPeer", "cudaMemcpy3DPeer"),
    ],
    "async_copy": [
        *("cudaMemcpyAsync", "cudaMemcpy2DAsync", "cuMemcpyDtoHAsync", "cudaMemcpyBatchAsync"),
        *("cudaMemcpyToSymbolAsync", "cuMemcpy3DBatchAsync"),
    ],
    "sync_memset": ["cudaMemset", "cudaMemset2D", "cuMemsetD32", "cuMemsetD2D8"],
    "async_memset": ["cudaMemsetAsync", "cudaMemset2DAsync", "cuMemsetD32Async"],
    "alloc": [
        *("cudaMalloc", "cudaMallocAsync", "cudaMallocManaged", "cudaMallocHost", "cudaFree"),
        *("cudaFreeAsync", "cudaFreeHost", "cudaHostAlloc", "cuMemAlloc", "cuMemCreate"),
        *("cuMemMap", "cuMemAddressReserve", "cuMemFree", "cuMemHostAlloc", "cudaHostRegister"),
    ],
    "load": [
        *("cuModuleLoadData", "cuModuleLoadDataEx", "cuLibraryLoadData", "cuModuleUnload"),
        *("cuLibraryGetKernel", "cuModuleGetFunction", "cuLinkComplete", "cudaLibraryLoadData"),
    ],
    "other": [
        *("cudaStreamWaitEvent", "cudaEventRecord", "cudaEventQuery", "cudaStreamIsCapturing"),
        *("cudaGraphInstantiate", "cudaLaunchHostFunc", "cuModuleGetLoadingMode", "cuInit"),
        *("cudaMemGetInfo", "cuMemPrefetchAsync", "cudaMemPrefetchAsync", "INVALID", ""),
    ],
}
NAMES = [(name, label) for label, names in EXPECTED.items() for name in names]


@given(
    st.sampled_from(NAMES),
    st.lists(
        st.one_of(st.sampled_from(["_ptsz", "_ptds"]), st.integers(1, 99_999).map("_v{}".format)),
        max_size=3,
    ),
)
def test_a_suffix_does_not_change_the_class(case: tuple[str, str], suffixes: list[str]) -> None:
    name, label = case
    assert classify(name + "".join(suffixes)) == label
    assert base_name(name + "".join(suffixes)) == name


@pytest.mark.parametrize(
    "name", ["xcudaMemcpy", "cudaMemcpy extra", "cudaLaunchKernelX", "Memcpy", "cudamalloc"]
)
def test_what_only_looks_like_a_name_is_another(name: str) -> None:
    assert classify(name) == "other"


def test_classes_are_added_by_name() -> None:
    calls = pl.DataFrame(
        {"name": ["cudaMemcpy_v3020", None, "cudaMemcpy_v3020", "cuLaunchKernel_ptsz"]},
        schema={"name": pl.Categorical},
    )
    got = with_classes(calls)
    assert got["api"].to_list() == ["cudaMemcpy", None, "cudaMemcpy", "cuLaunchKernel"]
    assert got["api_class"].to_list() == ["sync_copy", None, "sync_copy", "launch"]
    assert got["api_class"].dtype == pl.Enum(CLASSES)
