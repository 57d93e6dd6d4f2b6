"""A lost step is captured, the operator behind it is named, and the training does not notice."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import forked
import pyarrow.parquet as pq
import pytest
import torch
import torch.nn.functional as F
from firstfault.recorder import Recorder
from firstfault.recorder.capture.weak_calls import Allowance, HeldCall
from firstfault.schemas import STOPPED, captures_of, read_exit
from firstfault.schemas.files.layout import parts
from torch import Tensor, nn

SCRIPT = Path(__file__).parent / "scripts" / "lost_steps.py"
BAD = 4


def rows(run: Path, table: str) -> list[dict]:
    return [row for *_, part in parts(run, table) for row in pq.read_table(part).to_pylist()]


def record(run: Path, *arguments: str, policy: str = "capture") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--on-nonfinite", policy, "--out", str(run)]
    return forked.run([*command, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


class HiddenRoot(torch.autograd.Function):
    """A backward of one's own, of which autograd knows no formula."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp_min(0).sqrt()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient / (2 * x.clamp_min(0).sqrt())


class HiddenLog(torch.autograd.Function):
    """A logarithm of one's own; it saves nothing that autograd would show."""

    @staticmethod
    def forward(ctx, x):
        ctx.factor = (1 / x.clamp_min(1e-30)).clamp_max(1e3)
        return x.log()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor


class Masked(nn.Module):
    """Attention with a mask; at the bad step its first row masks every key."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 8)
        self.register_buffer("fill", torch.full((6, 6), float("-inf")).triu(1))

    def forward(self, x: Tensor, bad: bool) -> Tensor:
        x = self.project(x)
        scores = x @ x.transpose(-1, -2) + self.fill
        if bad:
            scores = scores.masked_fill(torch.arange(6)[:, None] == 0, float("-inf"))
        return (scores.softmax(-1) @ x).mean(1)


class Net(nn.Module):
    def __init__(self, tail: Callable[[Tensor, bool], Tensor]) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.tail = tail

    def forward(self, x: Tensor, bad: bool = False) -> Tensor:
        return self.tail(self.fc(x), bad)


def train(
    run: Path, model: nn.Module, loss_of: Callable[[Tensor, bool], Tensor], shape=(16, 8), **options
) -> list[dict]:
    """Eight steps, the fifth of them bad; returns the first bad operator of each capture."""
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with Recorder(run, model=model, **options):
        for step in range(8):
            x = torch.randn(shape)
            loss = loss_of(model(x, step == BAD), step == BAD)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert [row["message"] for row in rows(run, "events") if row["event"] == "recorder-fault"] == []
    return [row for row in rows(run, "replays") if row["first_bad"]]


def mean(out: Tensor, bad: bool) -> Tensor:
    return out.square().mean()


CASES = {
    "log of zero": (
        lambda x, bad: torch.log(F.softmax(x * (1e4 if bad else 1), -1) + (0 if bad else 1)),
        "log",
        "forward",
    ),
    "zero divisor": (lambda x, bad: x / (x * 0).sum() if bad else x, "div", "forward"),
    "half overflow": (lambda x, bad: (x.half() * (6e4 if bad else 1) * 4).float(), "mul", "forward"),
    "exponential": (lambda x, bad: torch.exp(x.abs() * (1e3 if bad else 1)), "exp", "forward"),
    "inf minus inf": (
        lambda x, bad: torch.exp(x.abs() * 1e3) - torch.exp(x.abs() * 1e3) if bad else x,
        "exp",
        "forward",
    ),
    "written in place": (
        lambda x, bad: x.clone().index_fill_(0, torch.tensor([1]), float("nan")) if bad else x,
        "index_fill_",
        "forward",
    ),
    "root at zero": (lambda x, bad: x + torch.sqrt((x * 0).square()) if bad else x, "div", "backward"),
    "own backward": (lambda x, bad: x + HiddenRoot.apply(-x.abs()) if bad else x, "div", "backward"),
    "masked branch": (
        lambda x, bad: torch.where(x.isfinite(), x, torch.log(x * 0 if bad else x.abs() + 1)),
        "div",
        "backward",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_operator_that_lost_the_value_is_named_with_its_line(name: str, tmp_path: Path) -> None:
    tail, operator, phase = CASES[name]

    found = train(tmp_path / "run", Net(tail), mean)

    assert [(row["step"], row["op"]) for row in found] == [(BAD, operator)]
    assert (found[0]["node"] is not None) == (phase == "backward")
    assert "test_captures.py" in found[0]["source"]
    assert found[0]["code"]
    assert found[0]["nan_count"] + found[0]["inf_count"] > 0


def test_masks_of_infinity_are_no_fault_but_the_softmax_of_nothing_is(tmp_path: Path) -> None:
    found = train(tmp_path / "run", Masked(), mean, shape=(4, 6, 8))

    assert [(row["step"], row["op"]) for row in found] == [(BAD, "_softmax")]
    assert found[0]["code"] == "scores.softmax(-1)"


class Criterion(nn.Module):
    def forward(self, out: Tensor, bad: bool) -> Tensor:
        return (out.square().sum() / (out * (0 if bad else 1)).abs().sum()).mean()


def test_a_loss_that_is_a_module_is_looked_into(tmp_path: Path) -> None:
    found = train(tmp_path / "run", Net(lambda x, bad: x), Criterion())

    assert [(row["op"], row["code"]) for row in found] == [
        ("div", "(out.square().sum() / (out * (0 if bad else 1)).abs().sum())"[1:-1])
    ]


def test_outputs_that_are_gone_are_made_again_for_the_loss_that_was_given_a_view_of_them(tmp_path: Path) -> None:
    class Likelihood(nn.Module):
        def forward(self, logits: Tensor, y: Tensor, bad: bool) -> Tensor:
            return HiddenLog.apply(F.softmax(logits * (1e5 if bad else 1), -1).gather(1, y[:, None])).neg().mean()

    model, criterion = nn.Sequential(nn.Linear(8, 8)), Likelihood()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    torch.manual_seed(0)
    with Recorder(tmp_path / "run", model=model):
        for step in range(8):
            x, y = torch.randn(4, 6, 8), torch.randint(8, (4, 6))
            criterion(model(x).view(-1, 8), y.view(-1), step == BAD).backward()
            optimizer.step()

    (found,) = [row for row in rows(tmp_path / "run", "replays") if row["first_bad"]]
    assert (found["step"], found["op"], found["code"]) == (BAD, "log", "x.log()")


def test_temporaries_of_a_call_are_there_when_its_step_is_judged(tmp_path: Path) -> None:
    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(4))

        def forward(self, x: Tensor, weight: Tensor) -> Tensor:
            return weight.pow(-0.5) * (x * self.scale).sum(-1)

    model = Weighted()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    torch.manual_seed(0)
    weights = torch.rand(64) + 0.1
    with Recorder(tmp_path / "run", model=model):
        for step in range(8):
            chosen = torch.rand(64) < 0.5
            chosen[0] = True
            weights[0] = -1.0 if step == BAD else 1.0
            model(torch.randn(64, 4)[chosen], weights[chosen]).mean().backward()
            optimizer.step()

    (found,) = [row for row in rows(tmp_path / "run", "replays") if row["first_bad"]]
    assert (found["step"], found["op"], found["code"]) == (BAD, "pow", "weight.pow(-0.5)")
    assert found["operand_min"] < 0


def test_arguments_beyond_the_allowance_are_not_kept_alive() -> None:
    first, second = torch.zeros(100), torch.zeros(100)
    allowance = Allowance(first.untyped_storage().nbytes() + 10)
    model = nn.Identity()

    call = HeldCall(model, (first, second), {}, None, None, (), allowance)
    del first, second

    missing: list[str] = []
    given = call.arguments(missing)
    assert given["0"] is not None
    assert given["1"] is None
    assert missing == ["argument 1: does not exist any more"]


def test_a_capture_is_no_checkpoint_of_the_script(tmp_path: Path) -> None:
    train(tmp_path / "run", Net(CASES["log of zero"][0]), mean)

    assert captures_of(tmp_path / "run")
    assert [row for row in rows(tmp_path / "run", "checkpoints") if row["action"] == "saved"] == []


def test_a_value_lost_in_code_outside_the_model_is_said_to_be(tmp_path: Path) -> None:
    found = train(
        tmp_path / "run", Net(lambda x, bad: x), lambda out, bad: torch.log(out.square().mean() * (0 if bad else 1))
    )

    assert found == []
    captured = rows(tmp_path / "run", "captured_steps")
    assert [(row["step"], row["reproduced"]) for row in captured] == [(BAD, False)]
    assert "outside the model" in captured[0]["note"]


def test_what_is_captured_can_be_loaded_safely_and_is_what_went_in(tmp_path: Path) -> None:
    seen: list[Tensor] = []

    def tail(x: Tensor, bad: bool) -> Tensor:
        seen.append(x.detach().clone())
        return torch.log(x * 0) if bad else x

    train(tmp_path / "run", Net(tail), mean)

    ((folder, meta),) = captures_of(tmp_path / "run")
    files = {path.name: torch.load(path, weights_only=True) for path in folder.glob("*.pt")}
    assert set(files) | {"plan.json"} == set(meta.files)
    assert torch.equal(files["operator.pt"]["inputs"]["self"], seen[BAD] * 0)
    weights = files["module_state.pt"]
    assert torch.equal(F.linear(files["inputs.pt"]["0"], weights["fc.weight"], weights["fc.bias"]), seen[BAD])
    assert not files["operator.pt"]["outputs"][0].isfinite().any()


def test_weights_that_the_forward_itself_writes_to_are_left_alone(tmp_path: Path) -> None:
    class Renormalising(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 8)
            self.times = 0

        def forward(self, x: Tensor, bad: bool) -> Tensor:
            self.times += 1
            with torch.no_grad():
                self.fc.weight.mul_(2.0)
            return self.fc(x) / (0.0 if bad else 1.0)

    model = Renormalising()

    found = train(tmp_path / "run", model, mean)

    assert found == []
    assert model.times == 8
    assert "would write to a tensor" in rows(tmp_path / "run", "captured_steps")[0]["note"]


def test_a_sampled_step_is_looked_into_all_the_same(tmp_path: Path) -> None:
    found = train(tmp_path / "run", Net(CASES["log of zero"][0]), mean, every=1000)

    assert [(row["step"], row["op"]) for row in found] == [(BAD, "log")]


def test_with_record_nothing_is_captured(tmp_path: Path) -> None:
    assert train(tmp_path / "run", Net(CASES["log of zero"][0]), mean, on_nonfinite="record") == []
    assert captures_of(tmp_path / "run") == []


def test_tensors_of_a_finished_step_are_not_kept_alive(tmp_path: Path) -> None:
    import weakref

    model = nn.Linear(4, 4)
    with Recorder(tmp_path / "run", model=model) as recorder:
        x = torch.randn(3, 4)
        alive = weakref.ref(x)
        loss = model(x).sum()
        loss.backward()
        del x, loss
        recorder.step()
        assert alive() is None


def test_an_exception_is_captured_with_the_inputs_of_the_module_in_flight(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.Linear(5, 2))
    x = torch.randn(3, 4)

    def training() -> None:
        with Recorder(tmp_path / "run", model=model):
            for _ in range(2):
                model[0](x).sum().backward()
            model(x)

    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        training()

    ((folder, meta),) = captures_of(tmp_path / "run")
    assert (meta.reason, meta.module) == ("exception", "1")
    assert torch.load(folder / "module.pt", weights_only=True)["args"][0].shape == (3, 6)
    assert torch.equal(torch.load(folder / "inputs_2.pt", weights_only=True)["0"], x)


@pytest.mark.parametrize("kind", ["dropout", pytest.param("sqrt", marks=pytest.mark.suite)])
def test_a_training_that_survives_a_lost_step_is_bit_identical_with_captures(kind: str, tmp_path: Path) -> None:
    plain = forked.run([sys.executable, SCRIPT, kind, "adamw", "own"], capture_output=True, text=True, check=True)

    recorded = record(tmp_path / "run", kind, "adamw", "own")

    assert recorded.stdout == plain.stdout
    assert plain.stdout.endswith("finite\n")
    (first,) = [row for row in rows(tmp_path / "run", "replays") if row["first_bad"]]
    assert (first["step"], first["op"]) == (
        5,
        "div",
    )  # dropout: only with the very mask of that step does it divide by zero
    assert rows(tmp_path / "run", "captured_steps")[0]["reproduced"]


@pytest.mark.parametrize(
    "optimizer", ["adamw", *(pytest.param(o, marks=pytest.mark.suite) for o in ("scaler", "lbfgs"))]
)
def test_skip_leaves_the_lost_step_out_and_the_training_goes_on(optimizer: str, tmp_path: Path) -> None:
    done = record(tmp_path / "run", "log", optimizer, policy="skip")

    assert done.returncode == 0, done.stderr  # warnings of schedulers are errors there
    assert done.stdout.endswith("finite\n")
    assert [row["step"] for row in rows(tmp_path / "run", "steps") if not row["stepped"]] == [5]


def test_stop_ends_the_run_with_its_own_status_and_a_checkpoint_that_loads(tmp_path: Path) -> None:
    done = record(tmp_path / "run", "log", "adamw", policy="stop")

    assert done.returncode == STOPPED
    ended = read_exit(tmp_path / "run")
    assert ended is not None
    assert ended.exit_code == STOPPED
    assert "--on-nonfinite stop" in (ended.note or "")
    ((folder, meta),) = captures_of(tmp_path / "run")
    assert meta.stopped
    checkpoint = torch.load(folder / "checkpoint.pt", weights_only=True)
    assert checkpoint["step"] == 5
    assert all(
        bool(value.isfinite().all()) for value in checkpoint["models"]["Net"].values() if value.is_floating_point()
    )
    assert checkpoint["optimizers"][0]["state"]
