"""Moments that arrive later are the moments; the fused kernel, run by Triton's interpreter, gives what the CPU kernel gives.

What only a GPU can show (streams, pinned copies, no synchronisation) is not tested here.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from firstfault.analyzer import Trace
from firstfault.recorder import Recorder
from firstfault.recorder.tensors import moments as statistics
from firstfault.recorder.tensors.device import DeviceStatistics, flat_of, moments_row, wait_for
from firstfault.recorder.tensors.measure import measure
from polars.testing import assert_frame_equal

TENSORS = {
    "plain": torch.linspace(-3, 4, 4099),
    "empty": torch.empty(0, 3),
    "one": torch.tensor([7.0]),
    "half with zeros": torch.arange(-5, 6).half(),
    "bfloat16": torch.linspace(-1e30, 1e30, 33).bfloat16(),
    "double": torch.linspace(0, 1, 1000, dtype=torch.float64),
    "NaN and infinities": torch.tensor([1.0, float("nan"), float("inf"), -float("inf"), 0.0, -2.5]),
    "only NaN": torch.full((5,), float("nan")),
    "integers": torch.arange(-3, 9),
    "truth values": torch.tensor([True, False, True]),
    "transposed": torch.arange(12.0).reshape(3, 4).t(),
    "every second": torch.arange(40.0)[::2],
    "squares beyond float32": torch.full((3,), 1e30),
    "sparse": torch.tensor([3.0, 0.0, -1.0, 0.0]).to_sparse(),
    "complex": torch.tensor([1 + 2j, -3j]),
}


@pytest.mark.parametrize("name", TENSORS)
def test_late_moments_are_the_moments(name: str) -> None:
    x = TENSORS[name]
    (late,) = DeviceStatistics(torch.device("cpu")).measure([x])

    direct = measure(x, count_zeros=True)
    assert (
        wait_for(late)[:6] == pytest.approx(direct[:6], rel=1e-6)
        if direct.min is not None
        else wait_for(late)[:6] == direct[:6]
    )
    assert wait_for(late)[6:] == pytest.approx(direct[6:], rel=1e-6)


def test_what_was_measured_before_the_page_is_sent_arrives_with_it_and_the_page_is_used_again() -> None:
    device = DeviceStatistics(torch.device("cpu"))
    first = device.measure([torch.ones(3), torch.zeros(2)])
    number = device.scalar(torch.tensor(2.5))
    pages = device.seal()

    assert [wait_for(m).sum for m in first] == [3.0, 0.0]
    assert wait_for(number) == 2.5
    for page in pages:
        device.reuse(page)
    again = device.measure([torch.full((2,), 4.0)])
    assert device.seal() == pages
    assert wait_for(again[0]).sum == 8.0


def test_a_step_with_more_tensors_than_a_page_has_rows_loses_none() -> None:
    device = DeviceStatistics(torch.device("cpu"))
    late = [device.measure([torch.full((1,), float(i))])[0] for i in range(5000)]

    assert len(device.seal()) == 2
    assert [wait_for(m).sum for m in late] == [float(i) for i in range(5000)]


def test_the_fused_kernel_in_its_interpreter_gives_the_same_rows(tmp_path: Path) -> None:
    script = tmp_path / "interpreted.py"
    torch.save({k: flat_of(v) for k, v in TENSORS.items()}, tmp_path / "tensors.pt")
    script.write_text(
        "import sys, torch\n"
        "from firstfault.recorder.tensors import triton_kernel as k\n"
        "flats = torch.load(sys.argv[1] + '/tensors.pt')\n"
        "groups = {}\n"
        "for name, x in flats.items():\n"
        "    if x.dtype in k.DTYPES and x.numel():\n"
        "        groups.setdefault(x.dtype, []).append((name, x))\n"
        "rows = {}\n"
        "for members in groups.values():\n"
        "    out = torch.full((len(members), k.COLUMNS), -1.0, dtype=torch.float64)\n"
        "    k.launch([x for _, x in members], k.Plan(tuple(x.numel() for _, x in members), out.device), out)\n"
        "    rows |= {name: row for (name, _), row in zip(members, out)}\n"
        "    for (name, x), row in zip(members, out):\n"
        "        alone = torch.full((1, k.COLUMNS), -1.0, dtype=torch.float64)\n"
        "        k.launch([x], k.Plan((x.numel(),), alone.device), alone)\n"
        "        assert torch.equal(alone[0, :7], row[:7]), name\n"
        "torch.save(rows, sys.argv[1] + '/rows.pt')\n"
    )
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, script, tmp_path], env=environment, check=True)

    rows = torch.load(tmp_path / "rows.pt")
    assert len(rows) >= 9
    for name, row in rows.items():
        torch.testing.assert_close(row[:7], moments_row(flat_of(TENSORS[name]))[:7], msg=lambda m, n=name: f"{n}: {m}")


def test_the_fused_kernels_compile_for_a_device_that_is_not_here(tmp_path: Path) -> None:
    """To machine code, by the assembler that comes with Triton."""
    script = tmp_path / "compiled.py"
    script.write_text(
        "import triton\n"
        "from triton.backends.compiler import GPUTarget\n"
        "from triton.compiler import ASTSource\n"
        "from firstfault.recorder.tensors import triton_kernel as k\n"
        "import triton.language as tl\n"
        "sizes = {'STRETCH': k.STRETCH, 'BLOCK': k.BLOCK}\n"
        "many = dict.fromkeys(('pointers', 'numels', 'owners', 'firsts'), '*i64') | {'rows': '*fp64'}\n"
        "one = {'base': '*fp32', 'numels': '*i64', 'rows': '*fp64'}\n"
        "joined = {'rows': '*fp64', 'firsts': '*i64', 'counts': '*i64', 'out': '*fp64'}\n"
        "for fn, signature, constants in (\n"
        "    (k._partial, many, sizes | {'DTYPE': tl.bfloat16, 'WIDE': tl.float64}),\n"
        "    (k._partial_of_one, one, sizes | {'WIDE': tl.float64}),\n"
        "    (k._joined, joined, {'WIDTH': k._WIDTH}),\n"
        "):\n"
        "    source = ASTSource(fn, signature | dict.fromkeys(constants, 'constexpr'), constants)\n"
        "    print(len(triton.compile(source, target=GPUTarget('cuda', 80, 32)).asm['cubin']) > 1000)\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {"TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["True"] * 3, done.stderr


def train(run: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    x, y = torch.randn(12, 16, 6), torch.randint(3, (12, 16))
    with Recorder(run, model=model, budget="off"):  # else what is measured hangs on how busy the machine is
        for i in range(12):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[i]), y[i]).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()


def test_a_recording_whose_numbers_come_late_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tmp_path / "direct")
    monkeypatch.setattr(statistics, "LATE_DEVICES", {"cpu"})
    monkeypatch.setattr("firstfault.recorder.tensors.device.LATE_DEVICES", {"cpu"})
    train(tmp_path / "late")

    query = (
        "SELECT step, tensor, s.numel, nan_count, sum_sq, CASE WHEN kind <> 'activation_gradient' THEN min END AS low"
        " FROM stats s WHERE kind <> 'update' ORDER BY step, seq"
    )
    scalars = "SELECT step, stepped, loss, grad_norm, clip_norm FROM steps ORDER BY step"
    with Trace(tmp_path / "direct") as direct, Trace(tmp_path / "late") as late:
        assert_frame_equal(late.sql(query), direct.sql(query), rel_tol=1e-5, abs_tol=1e-9)
        assert_frame_equal(late.sql(scalars), direct.sql(scalars), rel_tol=1e-5)
        assert direct.sql("SELECT count(*) FROM steps").item() == 12
