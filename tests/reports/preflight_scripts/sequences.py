"""A recurrent network that tells which half of a sequence is larger. ``--fault`` switches one mistake on."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FAULTS = (
    "none",
    "batch-first-forgotten",
    "loss-of-input",
    "broadcast-loss",
    "hidden-detached",
    "unregistered-layers",
    "wrong-backward",
    "loss-without-target",
    "batchnorm-over-time",
    "maximises",
    "frozen-all-but-bias",
    "half-scale-gradient",
)


class Scaled(torch.autograd.Function):
    """x · 2, with a gradient written by hand."""

    factor = 2.0

    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * Scaled.factor


class Cube(torch.autograd.Function):
    """x³; the one that is wrong forgets the factor 3x²'s square."""

    wrong = False

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return gradient * 3 * (x if Cube.wrong else x**2)


class Net(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.rnn = nn.GRU(4, 24, batch_first=fault != "batch-first-forgotten")
        layers = [nn.Linear(24, 24), nn.Linear(24, 24)]
        self.layers = layers if fault == "unregistered-layers" else nn.ModuleList(layers)
        self.out = nn.Linear(24, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, _ = self.rnn(x)
        h = h[:, -1]
        if self.fault == "hidden-detached":
            h = h.detach()
        for layer in self.layers:
            h = F.relu(layer(h)) + h
        h = Scaled.apply(Cube.apply(h) * 0.1 + h)
        if self.fault == "batchnorm-over-time":
            h = h - h.mean(0, keepdim=True)
        y = self.out(h)
        return y if self.fault == "broadcast-loss" else y.squeeze(1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", choices=FAULTS, default="none")
    fault = parser.parse_args().fault
    torch.manual_seed(1)
    Scaled.factor = 0.5 if fault == "half-scale-gradient" else 2.0
    Cube.wrong = fault == "wrong-backward"
    x = torch.randn(4096, 14, 4)
    y = (x[:, :7].mean((1, 2)) > x[:, 7:].mean((1, 2))).float()
    model = Net(fault)
    if fault == "frozen-all-but-bias":
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name == "out.bias")
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    for epoch in range(100):
        for inputs, targets in DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True):
            out = model(inputs)
            if fault == "broadcast-loss":
                loss = F.mse_loss(torch.sigmoid(out).expand(-1, 64), targets.expand(64, 64))
            elif fault == "loss-of-input":
                loss = F.mse_loss(out, out.detach().clone()) + F.mse_loss(out * 0, torch.ones_like(out))
            elif fault == "loss-without-target":
                loss = F.binary_cross_entropy_with_logits(out, torch.sigmoid(out).detach().round())
            else:
                loss = F.binary_cross_entropy_with_logits(out, targets)
            if fault == "maximises":
                loss = -loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
