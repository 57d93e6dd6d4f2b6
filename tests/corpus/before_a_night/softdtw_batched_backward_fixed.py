"""Learn to generate gesture curves from a short code with a weighted soft-DTW loss."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
from torch.autograd import Function
from torch.utils.data import DataLoader, TensorDataset

LENGTH, CODE = 16, 6


def softdtw_forward(D, gamma):
    b, n, m = D.shape
    R = np.full((b, n + 2, m + 2), np.inf)
    R[:, 0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            r = -np.stack([R[:, i - 1, j - 1], R[:, i - 1, j], R[:, i, j - 1]]) / gamma
            top = r.max(axis=0)
            R[:, i, j] = D[:, i - 1, j - 1] - gamma * (np.log(np.exp(r - top).sum(axis=0)) + top)
    return R


def softdtw_backward(D_, R, gamma):
    b, n, m = D_.shape
    D = np.zeros((b, n + 2, m + 2))
    D[:, 1:n + 1, 1:m + 1] = D_
    E = np.zeros((b, n + 2, m + 2))
    R = R.copy()
    E[:, -1, -1] = 1.0
    R[:, :, -1] = -np.inf
    R[:, -1, :] = -np.inf
    R[:, -1, -1] = R[:, -2, -2]
    for j in range(m, 0, -1):
        for i in range(n, 0, -1):
            a = np.exp((R[:, i + 1, j] - R[:, i, j] - D[:, i + 1, j]) / gamma)
            c = np.exp((R[:, i, j + 1] - R[:, i, j] - D[:, i, j + 1]) / gamma)
            d = np.exp((R[:, i + 1, j + 1] - R[:, i, j] - D[:, i + 1, j + 1]) / gamma)
            E[:, i, j] = E[:, i + 1, j] * a + E[:, i, j + 1] * c + E[:, i + 1, j + 1] * d
    return E[:, 1:n + 1, 1:m + 1]


class SoftDTWFunction(Function):
    @staticmethod
    def forward(ctx, D, gamma):
        R = softdtw_forward(D.detach().double().numpy(), gamma)
        ctx.save_for_backward(D)
        ctx.R, ctx.gamma = R, gamma
        return torch.from_numpy(R[:, -2, -2].copy()).to(D.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        (D,) = ctx.saved_tensors
        E = softdtw_backward(D.detach().double().numpy(), ctx.R, ctx.gamma)
        E = torch.from_numpy(E).to(D.dtype)
        return grad_output.view(-1, 1, 1).expand_as(E) * E, None


def soft_dtw(x, y, gamma=0.1):
    D = (x.unsqueeze(2) - y.unsqueeze(1)).pow(2).sum(-1)
    return SoftDTWFunction.apply(D, gamma)


def make_gestures(n, seed):
    """2-D curves from a code; each recording is time-warped and has its own confidence."""
    rng = np.random.default_rng(seed)
    code = rng.uniform(-1, 1, (n, CODE))
    warp = rng.uniform(0.8, 1.25, (n, 1))
    t = np.linspace(0, 1, LENGTH)[None] ** warp
    x = code[:, :1] + 1.5 * code[:, 1:2] * t + code[:, 2:3] * np.sin(3 * t)
    y = code[:, 3:4] + 1.5 * code[:, 4:5] * t + code[:, 5:6] * np.cos(3 * t)
    curve = np.stack([x, y], -1) + rng.normal(0, 0.01, (n, LENGTH, 2))
    confidence = rng.uniform(0.1, 2.0, n)
    return TensorDataset(*(torch.tensor(a, dtype=torch.float32) for a in (code, curve, confidence)))


class Generator(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(CODE, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(),
                                 nn.Linear(hidden, 2 * LENGTH))

    def forward(self, code):
        return self.net(code).view(-1, LENGTH, 2)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total, count = 0.0, 0
    for code, curve, confidence in loader:
        total += (confidence * soft_dtw(model(code), curve)).sum().item()
        count += len(code)
    return total / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=400)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=8)
    parser.add_argument("--model-path", default="gestures.pt")
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    generator = torch.Generator().manual_seed(args.seed)
    train_loader = DataLoader(make_gestures(480, 1), args.batch_size, shuffle=True, generator=generator)
    val_loader = DataLoader(make_gestures(96, 2), 32)
    model = Generator()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs, eta_min=1e-5)
    start = 0
    if os.path.exists(args.model_path):
        state = torch.load(args.model_path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        generator.set_state(state["generator"])
        torch.set_rng_state(state["rng"])
        start = state["epoch"] + 1
    for epoch in range(start, args.epochs):
        model.train()
        running, seen = 0.0, 0
        for code, curve, confidence in train_loader:
            loss = (confidence * soft_dtw(model(code), curve)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item() * len(code)
            seen += len(code)
        scheduler.step()
        print(f"epoch {epoch} train {running / seen:.4f} val {evaluate(model, val_loader):.4f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "generator": generator.get_state(),
                    "rng": torch.get_rng_state(), "epoch": epoch}, args.model_path)


if __name__ == "__main__":
    main()
