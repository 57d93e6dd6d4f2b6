"""Losses of evaluations are known from the line that reads them."""

import pytest
from firstfault.recorder.watches.eval_losses import read_from

EVALUATION = """
import torch

model = torch.nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 4), torch.randint(2, (32,))
for i in range(6):
    opt.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    opt.step()
    print(loss.item())
    if i % 2:
        with torch.no_grad():
            for part in (slice(16), slice(16, 32)):
                out = model(x[part])
                val_loss = torch.nn.functional.cross_entropy(out, y[part])
                print(val_loss.item(), (out.argmax(1) == y[part]).float().mean().item())
        print("training loss", loss.item())
"""


@pytest.mark.parametrize("variable", [pytest.param("val_loss", marks=pytest.mark.suite), "v"])
def test_the_loss_of_an_evaluation_is_known_from_the_line_that_reads_it(bench, training_of, variable: str) -> None:
    assert bench.record(bench.write(EVALUATION.replace("val_loss", variable), "train.py")).returncode == 0
    metrics = training_of(bench.run).rows("metrics")
    assert [(row["step"], row["source"]) for row in metrics] == [(1, "read"), (3, "read"), (5, "read")]
    assert all(row["name"].endswith("train.py:18 in <module>)") for row in metrics)
    assert all(0 < row["value"] < 3 for row in metrics)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "sdr = [usdr(v, compute_loss(model, v, m)[1]).item() for v, m in pairs]",
            "sdr = [usdr().item() for v, m in pairs]",
        ),
        ("total += criterion(out, y).item()", "total += criterion().item()"),
        ("val_loss += part.item()", "val_loss += part.item()"),
        ("val_loss += evaluate(model, x).item()", "val_loss += evaluate().item()"),
        ("losses.append(torch.sqrt(F.mse_loss(a, b)).item())", "losses.append(torch.sqrt(F.mse_loss()).item())"),
        ("F.mse_loss(a, b).sqrt().item()", "F.mse_loss().sqrt().item()"),
        ("x = out['loss'].item()", "x = out['loss'].item()"),
        ("return self.loss_fn(a)[0].item()", "return self.loss_fn()[0].item()"),
        ("print(loss.item(), accuracy.item())", "print(loss.item(), accuracy.item())"),
        ("total += loss.item() if", "total += loss.item() if"),
    ],
)
def test_what_is_read_is_told_from_what_it_is_made_of(text: str, said: str) -> None:
    assert read_from(text) == said
