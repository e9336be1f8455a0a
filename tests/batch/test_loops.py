"""Loops of different runs laid side by side: rotations, other names, added and lost kernels."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_deepprof.batch import loops
from nsys_deepprof.batch.loops import likeness, match_loops, work_signature

if TYPE_CHECKING:
    import pytest

AMPERE = [
    "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)",
    "ampere_sgemm_128x64_tn",
    "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn",
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_32x6_nn_align4>(Params)",
    "softmax_warp_forward",
    "sm80_xmma_fprop_implicit_gemm_f16_kernel",
]
VOLTA = [
    "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<half>>(int)",
    "volta_sgemm_64x64_tn",
    "volta_fp16_s884gemm_fp16_64x64_ldg8_f2f_tn",
    "void cutlass::Kernel2<cutlass_70_tensorop_s884gemm_32x32_nn_align4>(Params)",
    "softmax_warp_forward",
    "sm70_xmma_fprop_implicit_gemm_f16_kernel",
]


def pairs(a: list[str], b: list[str]) -> list[tuple[int | None, int | None, str | None]]:
    found = match_loops(a, b)
    assert found is not None
    return found.rows()


def test_signatures_are_the_same_for_another_gpu() -> None:
    same = [work_signature(x) == work_signature(y) for x, y in zip(AMPERE, VOLTA, strict=True)]
    # The third is another algorithm: it is matched by its place.
    assert same == [True, True, False, True, True, True]
    assert work_signature("Kernel") == "kernel"


def test_kernels_of_another_gpu_are_matched_by_signature_and_place() -> None:
    turned = VOLTA[4:] + VOLTA[:4]
    matches = ["signature", "signature", "place", "signature", "name", "signature"]
    assert pairs(AMPERE, turned) == [(i, (i + 2) % 6, match) for i, match in enumerate(matches)]


def test_added_and_lost_kernels_have_no_partner() -> None:
    a = ["x", "a", "b", "c", "d", "e"]
    b = ["x", "a", "c", "d", "new", "other", "e"]
    assert pairs(a, b) == [
        (0, 0, "name"),
        (1, 1, "name"),
        (2, None, None),
        (3, 2, "name"),
        (4, 3, "name"),
        (None, 4, None),
        (None, 5, None),
        (5, 6, "name"),
    ]


def test_likeness_counts_what_both_have() -> None:
    a, b = Counter("aabbc"), Counter("aabd")
    assert likeness(a, b) == 3 / 6
    assert (likeness(a, a), likeness(a, Counter()), likeness(Counter(), Counter())) == (1, 0, 0)


def test_empty_and_huge_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pairs([], []) == []
    assert pairs(["a"], []) == [(0, None, None)]
    monkeypatch.setattr(loops, "MAX_CELLS", 3)
    assert match_loops(["a", "b"], ["a", "b"]) is None


LOOP = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=12)


@given(LOOP, st.integers(0, 11))
@settings(deadline=None)
def test_a_rotation_with_a_kernel_of_one_place_is_found(loop: list[str], turn: int) -> None:
    loop = [*loop, "once"]
    turned = loop[turn % len(loop) :] + loop[: turn % len(loop)]
    expected = [(i, (i - turn) % len(loop), "name") for i in range(len(loop))]
    assert pairs(loop, turned) == expected


@given(LOOP, LOOP)
@settings(deadline=None)
def test_every_position_comes_once_and_the_alignment_is_a_best_one(
    a: list[str], b: list[str]
) -> None:
    rows = pairs(a, b)
    assert [x for x, _, _ in rows if x is not None] == list(range(len(a)))
    right = [y for _, y, _ in rows if y is not None]
    assert sorted(right) == list(range(len(b)))
    assert right == [(right[0] + k) % len(b) for k in range(len(b))]
    total = sum({"name": loops.SAME_NAME, "place": loops.SAME_PLACE, None: 0}[m] for *_, m in rows)

    def best(a: str, b: str) -> int:
        @cache
        def rest(i: int, j: int) -> int:
            if i == len(a) or j == len(b):
                return 0
            same = loops.SAME_NAME if a[i] == b[j] else loops.SAME_PLACE
            return max(same + rest(i + 1, j + 1), rest(i + 1, j), rest(i, j + 1))

        return rest(0, 0)

    # Both are cut where they share a kernel: it is a best alignment of one of those pairs of cuts.
    texts = "".join(a), "".join(b)
    cuts = [(i, j) for i in range(len(a)) for j in range(len(b)) if a[i] == b[j]] or [(0, 0)]
    assert total in {
        best(texts[0][i:] + texts[0][:i], texts[1][j:] + texts[1][:j]) for i, j in cuts
    }


def test_kernels_added_before_the_cut_do_not_misplace_the_rest() -> None:
    a = ["norm", "gemm", "norm", "gemm", "loss", "adam"]
    b = ["loss", "adam", "norm", "gemm", "gelu", "norm", "gemm", "gelu"]
    assert pairs(a, b) == [
        (0, 2, "name"),
        (1, 3, "name"),
        (None, 4, None),
        (2, 5, "name"),
        (3, 6, "name"),
        (None, 7, None),
        (4, 0, "name"),
        (5, 1, "name"),
    ]
