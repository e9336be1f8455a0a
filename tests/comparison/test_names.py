"""Names of two runs paired: exact ones first, generated ones by what the build leaves."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from nsys_deepprof.comparison.names import normalised, pair_names

NAMES = st.lists(
    st.sampled_from(
        [
            "gemm",
            "gemm_1",
            "gemm_2",
            "triton_poi_fused_add_1_cemi5yor3uh3",
            "triton_poi_fused_add_1_qwdf83hsk2la",
            "triton_poi_fused_mul_2_qwdf83hsk2la",
            "void f<int>(int)",
            "void f<float>(float)",
        ]
    ),
    unique=True,
)


@given(NAMES, NAMES)
def test_every_name_is_in_exactly_one_pair(a: list[str], b: list[str]) -> None:
    pairs = pair_names(a, b)
    assert Counter(p.a for p in pairs if p.a is not None) == Counter(a)
    assert Counter(p.b for p in pairs if p.b is not None) == Counter(b)
    for pair in pairs:
        if pair.match == "full":
            assert pair.a == pair.b
        elif pair.match == "normalised":
            assert pair.a != pair.b
            assert normalised(str(pair.a)) == normalised(str(pair.b))
        else:
            assert pair.a is None or pair.b is None
    # What both have is never given away to another name.
    assert {p.a for p in pairs if p.match == "full"} == set(a) & set(b)
    # Nothing that could be paired is left alone.
    alone_a = {normalised(p.a) for p in pairs if p.a is not None and p.b is None}
    alone_b = {normalised(p.b) for p in pairs if p.b is not None and p.a is None}
    assert not alone_a & alone_b


def test_hashes_and_counters_are_left_out_and_templates_are_not() -> None:
    assert normalised("triton_poi_fused_add_1_cemi5yor3uh3") == "triton_poi_fused_add"
    assert normalised("triton_poi_fused_add_12") == "triton_poi_fused_add"
    assert normalised("triton_red_fused_0d1d2de") == "triton_red_fused"
    assert normalised("void gemm_128<64, 1>(int)") == "void gemm_128<64, 1>(int)"
    assert normalised("_7") == "_7"
