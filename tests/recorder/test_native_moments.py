"""The C library's moments of hostile values are exact where they are counts and extremes, and close where they are sums."""

import math
import os
import subprocess
import sys
import threading

import pytest
import torch
from firstfault.recorder.tensors import native
from firstfault.recorder.tensors.element_sample import gather
from firstfault.recorder.tensors.gradient_norms import SeenGradients, quick_norm
from firstfault.recorder.tensors.labels_and_masks import sample_fingerprints
from firstfault.recorder.tensors.measure import measure
from firstfault.recorder.tensors.moments import EMPTY, Moments
from firstfault.recorder.tensors.row_spread import row_spread

SIZES = (1, 7, 15, 16, 17, 63, 1023, 1024, 1025, 2048, 5000)
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64)
HOSTILE = {
    "normal": torch.randn,
    "after relu": lambda n: torch.randn(n).relu(),
    "both zeros": lambda n: torch.tensor([0.0, -0.0]).repeat(n)[:n],
    "denormal": lambda n: torch.randn(n) * 1e-40,
    "squares vanish": lambda n: torch.randn(n) * 1e-25,
    "squares overflow": lambda n: torch.randn(n) * 1e25,
    "sum overflows": lambda n: torch.full((n,), 3e38),
    "huge among small": lambda n: torch.randn(n).index_fill_(0, torch.tensor([n // 2]), 1e30),
    "one nan": lambda n: torch.randn(n).index_fill_(0, torch.tensor([n // 2]), math.nan),
    "one infinity": lambda n: torch.randn(n).index_fill_(0, torch.tensor([n - 1]), -math.inf),
    "all nan": lambda n: torch.full((n,), math.nan),
    "all infinite": lambda n: torch.full((n,), -math.inf),
    "everything": lambda n: torch.tensor([math.nan, 0.0, math.inf, 1e-42, -1e30, -math.inf, 1.0]).repeat(n)[:n],
}


@pytest.fixture(autouse=True)
def library(need_library) -> native.Library:
    """The library, where there is one."""
    need_library(native.library, native.why_not() or "")
    assert native.library is not None
    return native.library


def _exact(x: torch.Tensor) -> tuple[tuple[object, ...], float, float, float]:
    """Counts and extremes; sum, sum of sizes and sum of squares without rounding."""
    values = x.detach().reshape(-1).double().tolist()
    finite = [v for v in values if math.isfinite(v)]
    nan = sum(math.isnan(v) for v in values)
    counts = (len(values), nan, len(values) - nan - len(finite), finite.count(0.0))
    extremes = (min(finite), max(finite)) if finite else (None, None)
    squares = [v * v for v in finite]
    return (*counts, *extremes), math.fsum(finite), math.fsum(map(abs, finite)), math.fsum(squares)


def _check(found: Moments | None, x: torch.Tensor) -> None:
    assert found is not None
    facts, total, sizes, squares = _exact(x)
    assert found[:6] == facts
    assert found.sum is not None
    assert found.sum_sq is not None
    assert abs(found.sum - total) <= 4e-6 * sizes
    assert abs(found.sum_sq - squares) <= 4e-6 * squares


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("dtype", FLOATS)
def test_floating_point(library, dtype, name):
    torch.manual_seed(0)
    for n in SIZES:
        x = HOSTILE[name](n).to(dtype)
        _check(library.moments(x), x)
        squares, expected = library.squares_of([x]), (x.double() ** 2).sum().item()
        assert squares == pytest.approx(expected, rel=4e-6, nan_ok=True)


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_number_that_two_bytes_can_hold(library, dtype):
    words = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16)
    x = words.view(dtype) if dtype.itemsize == 2 else words.view(torch.float16).to(dtype)
    _check(library.moments(x), x)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_up_to_their_ends(library, dtype):
    ends = torch.iinfo(dtype)
    for n in SIZES:
        x = torch.tensor([ends.min, ends.max, 0, 1, 7]).repeat(n)[:n] if dtype is not torch.uint64 else torch.arange(n)
        x = x.to(dtype)
        found = library.moments(x)
        _check(found, x)


def test_truth_values_whatever_byte_stands_for_true(library):
    x = torch.tensor([0, 1, 2, 255, 0], dtype=torch.uint8).view(torch.bool)
    assert library.moments(x) == Moments(5, 0, 0, 2, 0.0, 1.0, 3.0, 3.0)
    assert library.moments(torch.ones(3, dtype=torch.bool)) == Moments(3, 0, 0, 0, 1.0, 1.0, 3.0, 3.0)


@pytest.mark.parametrize("dtype", FLOATS)
def test_views_of_every_kind(library, dtype):
    torch.manual_seed(0)
    whole = torch.randn(24, 70, 3).to(dtype)
    views = [
        whole.transpose(0, 2),
        whole[::2, 1::3],
        whole[:, :, 1],
        whole[5:6].expand(4, 70, 3),
        whole[0, 0, 0].expand(9),
        whole.permute(1, 2, 0)[3:40],
        whole.flatten()[1:].view(-1),
        whole[:, :64, :].select(2, 0).t(),
        torch.randn(2, 3, 8, 8).to(dtype).to(memory_format=torch.channels_last),
        whole.flatten()[::2],
        whole[0, 0, 0],
    ]
    for view in views:
        _check(library.moments(view), view)
    for found, view in zip(library.moments_of(views), views, strict=True):
        _check(found, view)


def test_an_address_that_is_not_aligned(library):
    data = bytearray(b"\0") + torch.randn(3000).numpy().tobytes()
    x = torch.frombuffer(data, dtype=torch.float32, offset=1)
    assert x.data_ptr() % 4
    _check(library.moments(x), x)
    assert library.squares_of([x]) == pytest.approx((x.double() ** 2).sum().item(), rel=4e-6)


def test_what_it_cannot_read_is_left_to_torch(library):
    negated = torch.randn(4, dtype=torch.complex64).conj().imag
    freed = torch.randn(10)[5:]
    freed.untyped_storage().resize_(0)
    sparse = torch.eye(3).to_sparse()
    others = (negated, freed, sparse, torch.empty(3, device="meta"), torch.randn(3, dtype=torch.complex64))
    for x in (*others, torch._efficientzerotensor(4), torch.randn(3).to(torch.float8_e4m3fn)):
        assert library.moments(x) is None
        assert library.squares_of([torch.ones(2), x]) is None
    assert library.moments(torch.empty(0, 3)) == EMPTY
    assert library.squares_of([torch.empty(0), torch.ones(2)]) == 2.0
    _check(measure(negated, count_zeros=True), negated)
    _check(measure(sparse), sparse.to_dense()[torch.eye(3, dtype=torch.bool)])


def test_denormals_are_counted_as_they_are_where_they_are_flushed(library):
    x = torch.full((100,), 1e-40)
    assert torch.set_flush_denormal(True)
    try:
        assert library.moments(x).zero_count == 0
        assert library.moments(torch.full((40,), 2.0**-20).half()).sum == pytest.approx(40 * 2.0**-20)
    finally:
        torch.set_flush_denormal(False)


def test_loading_it_leaves_the_processors_rounding_alone():
    code = (
        "import ctypes, torch; from firstfault.recorder.tensors import native;"
        "assert native.library is not None; print(float(torch.tensor([1e-40]) * 1))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(1e-40, rel=1e-4)


def test_the_norm_of_gradients_is_that_of_torch(monkeypatch):
    torch.manual_seed(0)
    plain = [torch.randn(n) * 10.0**-k for k, n in enumerate((3, 100, 5000, 70000))]
    odd = [torch.randn(30, 20).t(), torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last), torch.zeros(5)]
    lists = [
        plain,
        plain + odd,
        [x.bfloat16() for x in plain],
        [x[::2] for x in plain],
        [*plain, torch.eye(3).to_sparse()],
    ]
    lists += [[torch.tensor([1.0, math.nan])], [torch.tensor([1.0, -math.inf])], [torch.full((50,), 1e-30)]]
    found = [quick_norm(gradients, SeenGradients()) for gradients in lists]
    monkeypatch.setattr(native, "library", None)
    for ours, gradients in zip(found, lists, strict=True):
        exact = math.sqrt(sum((g.to_dense().double() ** 2).sum().item() for g in gradients))
        assert ours == pytest.approx(exact, rel=2e-3 if gradients[0].dtype is torch.bfloat16 else 1e-6, nan_ok=True)
        if gradients[0].max() > 1e-20 or math.isnan(exact):  # torch's squares of smaller ones vanish
            theirs = quick_norm(gradients, SeenGradients())
            assert ours == pytest.approx(theirs, rel=2e-3, nan_ok=True)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_sample_holds_the_elements_that_torch_takes(library, monkeypatch, dtype):
    torch.manual_seed(0)
    tensors = [torch.randn(n).to(dtype) for n in (1, 1023, 1024, 1025, 5000, 70_001)] + [torch.randn(40, 50).to(dtype)]
    ours = gather(tensors)
    turned = gather([*tensors, torch.randn(7, 9).to(dtype).t()])
    monkeypatch.setattr(library, "sample", lambda *_: None)
    theirs = gather(tensors)
    assert ours.dtype is theirs.dtype
    assert torch.equal(ours, theirs)
    assert torch.equal(turned[: len(theirs)], theirs)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS[:6], torch.bool])
def test_the_hash_of_a_sample_is_that_of_torch(monkeypatch, dtype):
    torch.manual_seed(0)
    batches = [(torch.randn(*shape) * 100).to(dtype) for shape in ((5, 2), (7, 64), (3, 65), (4, 3, 20, 20))]
    batches.append(batches[-1].transpose(1, 2))
    ours = [sample_fingerprints(batch) for batch in batches]
    monkeypatch.setattr(native, "library", None)
    assert ours == [sample_fingerprints(batch) for batch in batches]
    assert all(ours)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(4, 4), (48, 128), (200, 300)])
@pytest.mark.parametrize("across", [False, True])
def test_rows_lie_as_far_apart_as_torch_says(monkeypatch, dtype, shape, across):
    torch.manual_seed(0)
    rows = (torch.randn(shape) * 3 + torch.randn(shape[1])).to(dtype)
    rows = rows.t().contiguous().t() if across else rows
    found = row_spread(rows)
    monkeypatch.setattr(native, "library", None)
    assert found == pytest.approx(row_spread(rows), rel=2e-5)


def test_rows_that_are_alike_have_no_spread(library):
    assert library.spread(torch.full((16, 8), 0.1)) == pytest.approx((0.0, 0.0, 0.1), abs=1e-7)
    assert library.spread(torch.zeros(16, 8)) == (0.0, 1.0, 0.0)
    assert math.isnan(library.spread(torch.ones(4, 4).index_fill_(1, torch.tensor([2]), math.nan))[0])
    assert library.spread(torch.ones(4, 4).long()) is None
    assert library.spread(torch.ones(4, 129)) is None


def test_many_threads_measure_at_once(library):
    tensors = [torch.full((2000 + i,), float(i)) for i in range(8)]
    wrong: list[int] = []

    def look(i: int) -> None:
        for _ in range(300):
            found = library.moments(tensors[i])
            if found is None or found.numel != 2000 + i or found.max != i or found.sum != (2000 + i) * i:
                wrong.append(i)

    threads = [threading.Thread(target=look, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def _said(code: str, **environment: str) -> str:
    code = f"from firstfault.recorder.tensors import native; {code}"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_it_says_why_it_is_not_used(library, tmp_path, monkeypatch):
    assert native.why_not() is None
    assert _said("print(native.library, native.why_not())", FIRSTFAULT_NATIVE="0") == "None FIRSTFAULT_NATIVE is 0"
    monkeypatch.setattr(native, "_PATH", tmp_path / "libmoments.so")
    assert "no C compiler" in native._load()[1]
    (tmp_path / "libmoments.so").write_bytes(b"not a library")
    assert native._load()[0] is None
    assert str(tmp_path) in native._load()[1]


def test_a_library_that_miscounts_is_not_used(library, monkeypatch):
    monkeypatch.setitem(native._CODES, torch.float32, native._CODES[torch.int32])
    found, why = native._load()
    assert found is None
    assert "float32" in why
