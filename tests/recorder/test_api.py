"""The Python API records what the command records, and stands aside where the command does already."""

import signal
import subprocess
import sys
from pathlib import Path

import forked
import pytest
import torch
from firstfault.analyzer import Trace
from firstfault.recorder import Recorder, RecorderError
from torch import nn

SCRIPT = Path(__file__).parent / "scripts" / "by_api.py"


def run_script(run: Path, mode: str) -> subprocess.CompletedProcess[str]:
    return forked.run([sys.executable, SCRIPT, run, mode], capture_output=True, text=True, check=False)


def test_a_with_statement_records_steps_names_configuration_and_metrics(tmp_path: Path) -> None:
    done = run_script(tmp_path / "run", "plain")
    assert done.returncode == 0, done.stderr
    with Trace(tmp_path / "run") as trace:
        assert trace.status == "completed"
        assert trace.manifest.config == {"lr": 0.05, "name": "é"}
        assert trace.sql("SELECT step FROM steps WHERE stepped ORDER BY step")["step"].to_list() == list(range(10))
        assert trace.sql("SELECT DISTINCT model FROM modules")["model"].to_list() == ["model"]
        metrics = trace.sql("SELECT step, value FROM metrics WHERE name = 'accuracy' ORDER BY step")
        assert metrics.rows() == [(i, i / 10) for i in range(10)]
        same = trace.sql(
            "SELECT max(abs(s.loss - m.value)) AS d FROM steps s JOIN metrics m USING (step) WHERE m.name = 'loss'"
        )
        assert same["d"][0] == 0


def test_an_exception_inside_is_recorded_and_goes_on(tmp_path: Path) -> None:
    done = run_script(tmp_path / "run", "raises")
    assert done.returncode == 1
    assert "the shelf is empty" in done.stderr
    with Trace(tmp_path / "run") as trace:
        assert trace.status == "exception"
        assert trace.exit is not None
        assert trace.exit.exception is not None
        assert trace.exit.exception.message == "the shelf is empty"


def test_without_a_supervisor_a_killed_run_keeps_its_steps(tmp_path: Path) -> None:
    done = run_script(tmp_path / "run", "killed")
    assert done.returncode == -signal.SIGKILL
    with Trace(tmp_path / "run") as trace:
        assert trace.status == "host-lost"
        assert trace.sql("SELECT count(*) AS n FROM steps WHERE completed AND stepped")["n"][0] == 6


def test_under_firstfault_run_the_recorder_joins_the_recording(tmp_path: Path) -> None:
    own, run = tmp_path / "own", tmp_path / "run"
    command = [sys.executable, "-m", "firstfault", "run", "--out", run, SCRIPT, own, "plain"]
    done = forked.run(command, capture_output=True, text=True, check=True)
    assert not own.exists()
    assert "10 steps recorded" in done.stderr
    with Trace(run) as trace:
        assert trace.sql("SELECT count(*) AS n FROM metrics WHERE name = 'accuracy'")["n"][0] == 10


def test_a_used_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(RecorderError, match="not empty"), Recorder(tmp_path):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_everything_is_taken_out_of_torch_at_the_end(tmp_path: Path) -> None:
    def surface() -> list[object]:
        module = torch.nn.modules.module
        return [
            torch.autograd.backward,
            torch.optim.Optimizer.__init__,
            torch.optim.Optimizer.zero_grad,
            nn.Module.zero_grad,
            torch.nn.utils.clip_grad_norm_,
            torch.amp.GradScaler.step,
            torch.utils.data.dataloader._BaseDataLoaderIter.__next__,
            sys.excepthook,
            len(module._global_forward_hooks),
            len(module._global_forward_pre_hooks),
            len(module._global_module_registration_hooks),
        ]

    before = surface()
    with Recorder(tmp_path / "run"):
        assert surface() != before
    assert surface() == before


def test_a_hook_that_fails_is_said_once_and_the_training_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("from inside the recorder")

    monkeypatch.setattr("firstfault.recorder.loop.activations.measure", broken)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Recorder(tmp_path / "run"):
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(4, 3)).sum().backward()
            optimizer.step()
    assert capsys.readouterr().err.count("from inside the recorder") == 1
    with Trace(tmp_path / "run") as trace:
        assert trace.sql("SELECT count(*) AS n FROM steps WHERE stepped")["n"][0] == 3
        assert trace.sql("SELECT count(*) AS n FROM events WHERE event = 'recorder-fault'")["n"][0] == 1


def test_no_tensor_is_kept_alive(tmp_path: Path) -> None:
    import gc
    import weakref

    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Recorder(tmp_path / "run"):
        x = torch.randn(4, 8)
        hidden = model[1](model[0](x))
        loss = model[2](hidden).sum()
        refs = [weakref.ref(t) for t in (x, hidden, loss)]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        del x, hidden, loss
        gc.collect()
        assert [r() for r in refs] == [None, None, None]
        model_ref = weakref.ref(model)
        del model, optimizer
        gc.collect()
        assert model_ref() is None
