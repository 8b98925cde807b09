"""Neighbours that exist as one operator are found among others, and no others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from collectors.profile.patterns import FamilyNames, NeighbourCount, Task


def found(
    *types: str, inputs: Sequence[str | None] = (), outputs: Sequence[str | None] = ()
) -> dict[str, int]:
    families, count = FamilyNames(), NeighbourCount()
    for number, type_ in enumerate(types):
        count.add(
            Task(
                type_,
                families.of(type_),
                2.0,
                inputs[number] if inputs else None,
                outputs[number] if outputs else None,
            )
        )
    return {neighbours.pattern: neighbours.count for neighbours in count.result()}


@pytest.mark.parametrize(
    ("types", "pattern"),
    [
        (("LayerNormV3", "MatMulV2", "Gelu"), "norm-matmul-gelu"),
        (("RmsNorm", "MatMulV3", "BiasAdd", "GeluV2"), "norm-matmul-gelu"),
        (("SoftmaxV2", "BatchMatMulV2"), "softmax-batchmatmul"),
        (("SoftmaxV2", "Cast", "BatchMatMul"), "softmax-batchmatmul"),
        (("Add", "RmsNorm"), "add-norm"),
        (("AddRmsNorm", "DynamicQuant"), "norm-quant"),
        (("RmsNorm", "AscendQuantV2"), "norm-quant"),
        (("RmsNorm", "RmsNorm", "RotaryMul"), "qk-norm-rope"),
        (("RmsNorm", "RmsNorm", "ApplyRotaryPosEmb"), "qk-norm-rope"),
        (("MatMulV2", "hcom_allReduce_"), "matmul-allreduce"),
        (("GroupedMatmul", "SwiGlu", "DynamicQuant"), "swiglu-quant"),
        (("Muls", "Add"), "muls-add"),
    ],
)
def test_a_pattern_is_found(types: tuple[str, ...], pattern: str) -> None:
    assert found(*types) == {pattern: 1}


@pytest.mark.parametrize(
    "types",
    [
        ("AddRmsNorm", "MatMulV2", "SwiGlu"),
        ("SoftmaxV2", "Transpose", "BatchMatMul"),
        ("SoftmaxGrad", "BatchMatMul"),
        ("Add", "RmsNormGrad"),
        ("FusedInferAttentionScore", "MatMulV2"),
        ("MatMulV2", "hcom_allGather_"),
    ],
)
def test_others_are_not(types: tuple[str, ...]) -> None:
    assert found(*types) == {}


def test_three_products_of_one_input_are_split_projections() -> None:
    shapes = ["64,5120;5120,5120", "64,5120;5120,1024", "64,5120;5120,1024"]
    outputs = ["64,5120", "64,1024", "64,1024"]
    assert found("MatMulV2", "MatMulV2", "MatMulV2", inputs=shapes, outputs=outputs) == {"split-qkv": 1}
    assert found(*["MatMulV2"] * 6, inputs=shapes * 2, outputs=outputs * 2) == {"split-qkv": 2}


def test_three_products_one_after_the_other_are_not() -> None:
    shapes = ["64,5120;5120,5120", "64,5120;5120,1024", "64,1024;1024,5120"]
    assert found(*["MatMulV2"] * 3, inputs=shapes, outputs=["64,5120", "64,1024", "64,5120"]) == {}
    assert found(*["MatMulV2"] * 3) == {}


def test_the_time_of_all_tasks_in_it_is_added_up() -> None:
    count, families = NeighbourCount(), FamilyNames()
    for type_, seconds in (
        ("SoftmaxV2", 1.0),
        ("BatchMatMul", 4.0),
        ("SoftmaxV2", 2.0),
        ("BatchMatMul", 5.0),
    ):
        count.add(Task(type_, families.of(type_), seconds, None, None))
    (neighbours,) = count.result()
    assert (neighbours.count, neighbours.seconds) == (2, 12.0)
    assert neighbours.example == ("SoftmaxV2", "BatchMatMul")
