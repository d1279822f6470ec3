"""Every printf shape of a level-2 line, in the clothes that logs put on it."""

from __future__ import annotations

import pytest

from hbtrace.importers.ggml_lines import AccessLine, Computed, Copied, EdgeLine, SplitMark, Unread, records

SHAPES = [
    (
        "san [split  -1 -         ] HOST       write ROCm_Host[0+2048] inp_tokens (tensor_set)",
        AccessLine(-1, "HOST", "write", "ROCm_Host", 0, 2048, "inp_tokens", None, "tensor_set"),
    ),
    (
        "san [split   0 ROCm0#1   ] ROCm0#1    read  ROCm_Host[0+2048] inp_tokens (compute)",
        AccessLine(0, "ROCm0#1", "read", "ROCm_Host", 0, 2048, "inp_tokens", None, "compute"),
    ),
    (
        "san [split   3 Vulkan0   ] Vulkan0    write Vulkan0[64+16] cache_k_l0 (view) (copy of Kcur-0) (compute)",
        AccessLine(3, "Vulkan0", "write", "Vulkan0", 64, 16, "cache_k_l0 (view) (copy of Kcur-0)", None, "compute"),
    ),
    (
        "san [split   0 RPC[127.0.0.1:50052]] RPC[127.0.0.1:50052] read  RPC[127.0.0.1:50052][8+4] x (compute)",
        AccessLine(0, "RPC[127.0.0.1:50052]", "read", "RPC[127.0.0.1:50052]", 8, 4, "x", None, "compute"),
    ),
    (
        "san [split   0 RPC[a:1]  ] RPC[a:1]   read  RPC[a:1][8+4] x (compute)",
        AccessLine(0, "RPC[a:1]", "read", "RPC[a:1]", 8, 4, "x", None, "compute"),
    ),
    (
        "san [split   0 My NPU    ] My NPU     read  My NPU[8+4] x y (compute)",
        AccessLine(0, "My NPU", "read", "My NPU", 8, 4, "x y", None, "compute"),
    ),
    (
        "san [split  -1 -         ] HOST       write CPU[0+4]  (tensor_set)",
        AccessLine(-1, "HOST", "write", "CPU", 0, 4, "", None, "tensor_set"),
    ),
    (
        "san [split   1 A         ] A          read  CPU[0+4] v <- r (cpy_async src)",
        AccessLine(1, "A", "read", "CPU", 0, 4, "v", "r", "cpy_async src"),
    ),
    ("san [split  -1 -         ] ROCm0      EDGE  synchronize -> HOST", EdgeLine(-1, "ROCm0", "synchronize", -1)),
    ("san [split   1 ROCm0     ] ROCm0      EDGE  event_record  ev=0", EdgeLine(1, "ROCm0", "event_record", 0)),
    ("san [split   1 ROCm0     ] ROCm0      EDGE  event_wait    ev=12", EdgeLine(1, "ROCm0", "event_wait", 12)),
    ("san [split  -1 -         ] HOST       EDGE  event_sync    ev=3", EdgeLine(-1, "HOST", "event_sync", 3)),
    ("san [split   0 ROCm0     ] ROCm0      compute       12 nodes, r=20 w=9 ranges", Computed(0, "ROCm0", 12, 20, 9)),
    (
        "san [split   0 Vulkan0   ] Vulkan0    cpy_async     l_out-2@ROCm0#1 -> Vulkan0#l_out-2#0",
        Copied(0, "Vulkan0", "ROCm0#1"),
    ),
    ("san [split   2 CPU       ] CPU        split         0 inputs (no sync path)", SplitMark(2, "CPU", 0)),
]

CLOTHES = {
    "plain": "{}\n",
    "CRLF": "{}\r\n",
    "no ending": "{}",
    "llama.cpp's time stamp and level": "0.00.123.456 D {}\n",
    "container": "2026-09-21T10:00:00.123456789Z stderr F {}\n",
    "prefixed": "ggml-sched-sanitize: {}\n",
    "colours": "\x1b[35m0.01.2\x1b[0m \x1b[33mD {}\x1b[0m\n",
    "after a progress bar": "....... 50%\r{}\n",
    "quoted": "> {}\n",
}


@pytest.mark.parametrize(("text", "record"), SHAPES)
@pytest.mark.parametrize("clothes", CLOTHES.values(), ids=CLOTHES.keys())
def test_every_shape_in_all_clothes(text: str, record: object, clothes: str) -> None:
    assert list(records(clothes.format(text).encode())) == [record]


@pytest.mark.parametrize(("text", "record"), SHAPES)
def test_a_log_that_powershell_redirected(text: str, record: object) -> None:
    assert list(records((text + "\r\n").encode("utf-16"))) == [record]


def test_two_records_whose_line_ending_was_lost() -> None:
    assert list(records("".join(text for text, _ in SHAPES[:2]).encode())) == [record for _, record in SHAPES[:2]]


@pytest.mark.parametrize(
    "text",
    [
        "san [split  -1 -         ] HOST       write ROCm_Host[0+20",
        "san [split",
        "san [split   0 ROCm0     ] ROCm0      read  CPU[0+4] x (compute) and then something else",
        "san [split   0 ROCm0     ] HOST       EDGE  synchronize -> HOST",
        "san [split   0 ROCm0     ] HOST       compute       1 nodes, r=0 w=0 ranges",
        "san [split   0 ROCm0     ] A          read  CPU[18446744073709551615+4] x (compute)",
        "san [split   0 ROCm0     ] A          read  CPU[9223372036854775807+1] x (compute)",
        "san [split   0 ROCm0     ] A          read  CPU[" + "9" * 5000 + "+1] x (compute)",
        "san [split   0 " + "a " * 100_000,
    ],
)
def test_what_is_damaged_is_told_apart(text: str) -> None:
    (record,) = records(text.encode())
    assert isinstance(record, Unread)


def test_other_output_is_nothing() -> None:
    assert not list(records(b"llama_model_loader: - kv   0: general.architecture str = llama\n"))
    assert not list(records(b"\xff\xfe\x00san"))
