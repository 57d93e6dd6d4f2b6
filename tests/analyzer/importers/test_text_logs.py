# ruff: noqa: E501 # lines of logs are as long as they are
"""Text logs of many programs: each is found by what its lines look like, and its numbers come out with their steps."""

from pathlib import Path

import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.analyzer.errors import ImportFileError
from firstfault.analyzer.importers import import_files
from firstfault.analyzer.importers.text_logs import FORMATS, known_format, log_lines

BAR = "Epoch 0:  {p}%|####      | {n}/20 [00:31<00:00,  1.27it/s, v_num=3, {values}]"

LOGS = {
    "lines of transformers' Trainer": (
        (
            " 10%|#   | 500/5000 [01:00<09:00,  8.3it/s]\r{'loss': 0.9, 'grad_norm': 2.5, 'learning_rate': 4.5e-05, 'epoch': 0.1}\n"
            " 10%|#   | 500/5000 [01:01<09:00,  8.3it/s]\n  0%|    | 0/40 [00:00<?, ?it/s]\r 50%|##  | 20/40 [00:01<00:01]\r\n"
            "{'eval_loss': 0.8, 'eval_runtime': 2.0, 'epoch': 0.1}\n 20%|##  | 1000/5000 [02:00<08:00,  8.3it/s]\n"
            "{'loss': '0.7', 'grad_norm': 'nan', 'learning_rate': '4e-05', 'epoch': '0.2'}\n"
            "{'train_runtime': 300.0, 'train_loss': 0.8, 'epoch': 0.2}\n"
        ),
        [(500, 0.9), (1000, 0.7)],
    ),
    "nanoGPT": (
        (
            "step 0: train loss 4.2, val loss 4.3\niter 0: loss 4.25, time 900.12ms, mfu -100.00%\n"
            "iter 10: loss 3.5, time 90.1ms, mfu 12.30%\n"
        ),
        [(0, 4.25), (10, 3.5)],
    ),
    "modded-nanogpt": (
        "import torch\nloss = model(x)\n" + "=" * 80 + "\nstep:0/500 val_loss:10.8 train_time:0ms step_avg:nanms\n"
        "step:1/500 train_loss:10.7 train_time:90ms step_avg:nanms\nstep:2/500 train_loss:10.2 train_time:180ms\n",
        [(1, 10.7), (2, 10.2)],
    ),
    "Megatron-LM": (
        (
            " [2025-05-27 15:23:07] iteration       10/   500 | consumed samples:           80 | elapsed time per iteration (ms):"
            " 1891.8/1888.6 | learning rate: 4.400000E-05 | global batch size:     8 | lm loss: 1.018988E+01 | loss scale: 1.0 |"
            " grad norm: 1.5 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
            " validation loss at iteration 10 | lm loss value: 9.9E+00 | lm loss PPL: 2.0E+04 |\n"
            " [2025-05-27 15:23:27] iteration       20/   500 | consumed samples:          160 | learning rate: 4.400000E-05 |"
            " lm loss: 9.018988E+00 | loss scale: 1.0 | grad norm: 1.2 |\n"
        ),
        [(10, 10.18988), (20, 9.018988)],
    ),
    "a Lightning progress bar": (
        "\r".join(
            BAR.format(p=5 * n, n=n, values=f"reduced_train_loss={v}, global_step={n - 1}.000, lr=2e-5, val_loss=9.9")
            for n, v in ((1, 6.93), (2, 6.79), (2, 6.79))
        ),
        [(0, 6.93), (1, 6.79)],
    ),
    "OLMo": (
        (
            "[2024-04-17 09:42:26] INFO     [olmo.train:816, rank=0] [step=1/7000,epoch=0]\n    train/CrossEntropyLoss=11.25\n"
            "    train/Perplexity=76,631\n    optim/total_grad_norm=2.5\n    optim/learning_rate_group0=0.0001\n"
            "[2024-04-17 09:42:38] INFO     [olmo.train:816, rank=0] [step=2/7000,epoch=0]\n    train/CrossEntropyLoss=10.73\n"
        ),
        [(1, 11.25), (2, 10.73)],
    ),
    "torchtitan": (
        (
            "[rank0]:[titan] 2025-01-02 03:04:05,678 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss: 12.2  \x1b[38;2;1;2;3mgrad_norm:"
            "  3.5  \x1b[33mmemory: 38.60GiB(40.6%)  \x1b[34mtps: 1,234  \x1b[36mtflops: 98.7  \x1b[35mmfu: 10.00%\x1b[39m\n"
            "[rank0]:[titan] 2025-01-02 03:04:15,678 - root - INFO - step: 10  loss:  8.1  grad_norm:  1.5  memory: 40.0GiB(42.0%)"
            "  tps: 5,000  tflops: 300.10  mfu: 30.00%\n"
        ),
        [(1, 12.2), (10, 8.1)],
    ),
    "mmengine": (
        (
            "06/28 03:16:23 - mmengine - INFO - Epoch(train)   [1][10/20]  lr: 5.0e-03  eta: 15:19:03  time: 0.5  memory: 88"
            "  grad_norm: 9.5  loss: 1.5  loss_cls: 1.0  loss_bbox: 0.5\n"
            "06/28 03:16:25 - mmengine - INFO - Epoch(train)   [2][10/20]  lr: 5.0e-03  eta: 15:19:03  time: 0.5  memory: 88"
            "  grad_norm: 9.5  loss: 1.2  loss_cls: 0.8  loss_bbox: 0.4\n"
            "06/28 03:16:30 - mmengine - INFO - Epoch(val)   [2][5/5]    coco/bbox_mAP: 0.31  data_time: 0.1  time: 0.2\n"
        ),
        [(10, 1.5), (30, 1.2)],
    ),
    "detectron2": (
        (
            "[11/07 14:28:51 d2.utils.events]:  eta: 19:25:50  iter: 19  total_loss: 3.5  loss_cls: 2.0  loss_box_reg: 1.5  time: 0.5"
            "  data_time: 0.01  lr: 0.00025  max_mem: 5000M\n"
            "[11/07 14:29:51 d2.utils.events]:  eta: 19:24:50  iter: 39  total_loss: 2.5  loss_cls: 1.5  loss_box_reg: 1.0  time: 0.5"
            "  data_time: 0.01  lr: 0.0005  max_mem: 5000M\n"
        ),
        [(19, 3.5), (39, 2.5)],
    ),
    "fairseq": (
        (
            "2023-06-13 17:31:08 | INFO | train_inner | epoch 001:    100 / 282 loss=3.5, nll_loss=1.2, ppl=8.86, num_updates=100,"
            " lr=0.0001, gnorm=0.5, loss_scale=128\n"
            "2023-06-13 17:32:08 | INFO | train_inner | epoch 001:    200 / 282 loss=3.1, nll_loss=1.1, num_updates=200, lr=0.0002\n"
            "2023-06-13 17:33:08 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 3.0 | ppl 8 | num_updates 282\n"
        ),
        [(100, 3.5), (200, 3.1)],
    ),
    "llm.c": (
        (
            "val loss 11.1\nstep    1/19560 | loss 11.009 (+nanz)| norm 15.3 (+nanz)| lr 8.57e-07 | 3057.43 ms | 48.5% bf16 MFU |\n"
            "step    2/19560 | loss 10.5 (+nanz)| norm 14.3 (+nanz)| lr 1.71e-06 | 300.00 ms | 48.5% bf16 MFU |\n"
        ),
        [(1, 11.009), (2, 10.5)],
    ),
    "Keras": (
        (
            "Epoch 1/2\n\r 1/20 [>.....] - ETA: 3s - loss: 2.9\r20/20 [==============================] - 3s 2ms/step - loss: 1.5"
            " - accuracy: 0.6 - val_loss: 1.4\nEpoch 2/2\n20/20 ━━━━━━━━━━━━━━━━━━━━ 3s 2ms/step - accuracy: 0.7 - loss: 1.2\n"
        ),
        [(1, 1.5), (2, 1.2)],
    ),
    "MLPerf's MLLOG": (
        (
            ':::MLLOG {"namespace": "", "time_ms": 1700000000000, "event_type": "POINT_IN_TIME", "key": "opt_base_learning_rate",'
            ' "value": 0.5, "metadata": {"file": "a.py", "lineno": 1}}\n'
            ':::MLLOG {"namespace": "", "time_ms": 1700000001000, "event_type": "POINT_IN_TIME", "key": "train_loss", "value": 2.5,'
            ' "metadata": {"step_num": 10}}\n'
            ':::MLLOG {"namespace": "", "time_ms": 1700000002000, "event_type": "POINT_IN_TIME", "key": "tracked_stats", "value":'
            ' {"train_loss": 2.0, "throughput": 9.5}, "metadata": {"step_num": 20}}\n'
        ),
        [(10, 2.5), (20, 2.0)],
    ),
    "lines with a step and a loss": (
        (
            "loading data: 100 files\nEpoch 1/3, train_loss=0.9, acc: 0.5\nEpoch 2/3, train_loss=0.7, acc: 0.6\nEpoch 3/3,"
            " train_loss=0.6, acc: 0.7\n"
        ),
        [(1, 0.9), (2, 0.7), (3, 0.6)],
    ),
    "tables of names and numbers": (
        "".join(
            "---------------------------------\n| rollout/           |          |\n|    ep_rew_mean     | 1.43     |\n"
            f"| time/              |          |\n|    total_timesteps | {step}     |\n| train/             |          |\n"
            f"|    loss            | {loss}   |\n---------------------------------\n"
            for step, loss in ((2048, 0.5), (4096, -0.0094))
        ),
        [(2048, 0.5), (4096, -0.0094)],
    ),
    "YOLO": (
        "".join(
            "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
            f"        {n}/3      4.78G     9.0     9.0     9.0         12        640:  50%|█████     | 50/101\r"
            f"        {n}/3      4.78G     {box}     0.2     0.9         12        640: 100%|██████████| 101/101\n"
            "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|██████████| 15/15\n"
            "                   all        452        526      0.914       0.96      0.976       0.91\n"
            for n, box in ((1, 0.9), (2, 0.8))
        ),
        [(1, 2.0), (2, 1.9)],
    ),
}


def imported(tmp_path: Path, text: str | bytes, name: str = "train.log") -> Trace:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    import_files([path], tmp_path / "run", "0")
    return Trace(tmp_path / "run")


@pytest.mark.parametrize("kind", LOGS)
def test_a_log_is_known_and_its_losses_have_their_steps(tmp_path, kind):
    text, losses = LOGS[kind]
    with imported(tmp_path, text) as trace:
        found = trace.sql("SELECT step, loss FROM steps WHERE loss IS NOT NULL ORDER BY step").rows()
        assert found == [(step, pytest.approx(loss)) for step, loss in losses]
        assert (
            f"was read as {kind}; not taken: "
            in trace.sql("SELECT message FROM events WHERE event = 'log-read'").item()
        )


def test_every_kind_has_an_example_and_takes_its_own_alone():
    assert set(LOGS) == {f.name for f in FORMATS} | {"lines with a step and a loss"}
    for form in FORMATS:
        text, _ = LOGS[form.name]
        assert known_format(text.replace("\r", "\n").splitlines()) is form


@pytest.mark.parametrize(
    ("kind", "sql", "value"),
    [
        ("lines of transformers' Trainer", "SELECT value FROM metrics WHERE name = 'eval_loss' AND step = 500", 0.8),
        ("nanoGPT", "SELECT value FROM metrics WHERE name = 'val loss' AND step = 0", 4.3),
        ("Megatron-LM", "SELECT loss_scale FROM steps WHERE step = 10", 1.0),
        ("Megatron-LM", "SELECT grad_norm FROM steps WHERE step = 20", 1.2),
        ("Megatron-LM", "SELECT value FROM metrics WHERE name = 'validation/lm loss'", 9.9),
        ("Megatron-LM", "SELECT min(time_ns) FROM steps", 1_748_359_387_000_000_000),
        ("OLMo", "SELECT value FROM metrics WHERE name = 'train/Perplexity'", 76631.0),
        ("OLMo", "SELECT lr FROM param_groups", 0.0001),
        ("torchtitan", "SELECT value FROM metrics WHERE name = 'tps' AND step = 10", 5000.0),
        ("mmengine", "SELECT value FROM metrics WHERE name = 'val/coco/bbox_mAP' AND step = 30", 0.31),
        ("fairseq", "SELECT value FROM metrics WHERE name = 'valid/loss' AND step = 282", 3.0),
        ("llm.c", "SELECT grad_norm FROM steps WHERE step = 2", 14.3),
        ("Keras", "SELECT value FROM metrics WHERE name = 'val_loss'", 1.4),
        ("MLPerf's MLLOG", "SELECT value FROM metrics WHERE name = 'throughput'", 9.5),
        ("a Lightning progress bar", "SELECT count(*) FROM metrics WHERE name = 'val_loss'", 1),
    ],
)
def test_what_else_a_log_tells(tmp_path, kind, sql, value):
    with imported(tmp_path, LOGS[kind][0]) as trace:
        assert trace.sql(sql).item() == pytest.approx(value)


def test_ranks_that_slurm_interleaves_are_told_apart(tmp_path):
    lines = [f"{r}: step {i} | loss {1.0 + r} | lr 0.1" for i in range(6) for r in (0, 1)]
    lines[3] = "0: step 1 | lo1: step 1 | loss 2.0"  # two writers met in one line
    with imported(tmp_path, "\n".join(lines), "slurm-1.out") as trace:
        found = trace.sql("SELECT rank, count(*), min(loss), max(loss) FROM steps GROUP BY rank ORDER BY rank").rows()
        assert found[1] == (1, 5, 2.0, 2.0)
        assert found[0][0] == 0


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_marks_of_byte_order_and_line_ends_of_windows_do_not_matter(tmp_path, encoding):
    text, losses = LOGS["nanoGPT"]
    with imported(tmp_path, text.replace("\n", "\r\n").encode(encoding)) as trace:
        assert trace.sql("SELECT count(*) FROM steps WHERE loss IS NOT NULL").item() == len(losses)


def test_a_trainer_that_prints_a_loss_of_zero_and_a_norm_of_nan_is_anomalous(tmp_path):
    lines = ["{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 4e-06, 'epoch': 0.5}"] * 6
    with imported(tmp_path, "\n".join(lines)) as trace:
        verdict = diagnose(trace)
        assert (verdict.causes[0].name, verdict.causes[0].step) == ("unexplained-nonfinite", 0)


def test_a_dictionary_before_the_first_bar_has_the_step_of_its_epoch(tmp_path):
    lines = ["{'loss': 0.9, 'epoch': 0.1}"]
    for n in (2, 3, 4):
        lines += [
            f" 10%|# | {500 * n}/5000 [01:00<09:00,  8it/s]",
            f"{{'loss': {0.9 - n / 10:.1f}, 'epoch': {n / 10}}}",
        ]
    with imported(tmp_path, "\n".join(lines)) as trace:
        assert trace.sql("SELECT step FROM steps ORDER BY step")["step"].to_list() == [500, 1000, 1500, 2000]


def test_a_text_without_a_loss_is_refused(tmp_path):
    with pytest.raises(ImportFileError, match=r"train\.log"):
        imported(tmp_path, "hello\nworld, this is\nprose: 5 apples\n")


def test_a_line_without_end_does_not_fill_the_memory(tmp_path):
    (tmp_path / "a.log").write_bytes(b"x" * (3 << 20) + b"\niter 5: loss 1.0, time 1ms\n")
    assert [line for line in log_lines(tmp_path / "a.log") if line.startswith("iter")] == ["iter 5: loss 1.0, time 1ms"]
