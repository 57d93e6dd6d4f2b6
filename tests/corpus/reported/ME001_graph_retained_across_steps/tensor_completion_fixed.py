"""Fit a low-rank Tucker decomposition to a small colour picture by gradient descent."""
import time

import numpy as np
import torch


def picture(size=128, noise=0.02, seed=0):
    """A smooth synthetic photograph with values around zero."""
    rng = np.random.default_rng(seed)
    axis = np.linspace(-1, 1, size)
    yy, xx = np.meshgrid(axis, axis, indexing="ij")
    image = np.zeros((size, size, 3))
    for _ in range(6):
        cy, cx = rng.uniform(-0.8, 0.8, 2)
        sy, sx = rng.uniform(0.15, 0.5, 2)
        blob = np.exp(-((yy - cy) / sy) ** 2 - ((xx - cx) / sx) ** 2)
        image += blob[..., None] * rng.normal(0, 1, 3)
    image = (image - image.mean()) / image.std()
    return torch.tensor(image + noise * rng.normal(size=image.shape), dtype=torch.float32)


class Tensor:
    """A Tucker tensor: a small core and one factor per mode."""

    def __init__(self, shape, ranks, seed):
        gen = torch.Generator().manual_seed(seed)
        self.core = (0.3 * torch.randn(ranks, generator=gen)).requires_grad_()
        self.Us = [(torch.randn(s, r, generator=gen) / r ** 0.5).requires_grad_() for s, r in zip(shape, ranks)]

    def parameters(self):
        return [self.core] + self.Us

    def full(self):
        return torch.einsum("abc,ia,jb,kc->ijk", self.core, *self.Us)

    def numel(self):
        return sum(p.numel() for p in self.parameters())


def relative_error(gt, approx):
    return torch.dist(gt, approx) / torch.norm(gt)


def optimize(tensors, loss_function, optimizer=torch.optim.Adam, tol=1e-6, max_iter=500, print_freq=100, lr=0.02):
    """
    Minimise loss_function over the parameters of one or several tensors.

    :return: the history of losses
    """
    if not isinstance(tensors, (list, tuple)):
        tensors = [tensors]
    parameters = [p for t in tensors for p in t.parameters()]
    print(f"Optimising {sum(p.numel() for p in parameters)} parameters")
    optimizer = optimizer(parameters, lr=lr)
    losses = []
    start = time.time()
    for iteration in range(max_iter):
        optimizer.zero_grad()
        loss = loss_function(*tensors)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if iteration % print_freq == 0:
            print(f"iter {iteration: <5} | loss {losses[-1].item():10.6f} | total time {time.time() - start:8.2f}")
        if len(losses) >= 100 and abs(losses[-2] - losses[-1]) / losses[-1] < tol:
            print("converged")
            break
    print(f"iter {iteration: <5} | loss {losses[-1].item():10.6f} | total time {time.time() - start:8.2f}")
    return losses


def main():
    torch.manual_seed(1)
    clean = picture(noise=0.0)
    observed = picture()
    keep = torch.rand(observed.shape[:2], generator=torch.Generator().manual_seed(5)) < 0.7

    model = Tensor(observed.shape, (12, 12, 3), seed=2)

    def loss(t):
        residual = (t.full() - observed) * keep[..., None]
        return residual.pow(2).sum() / (3 * keep.sum())

    history = optimize(model, loss)
    with torch.no_grad():
        full = model.full()
        print(f"loss went from {history[0].item():.4f} to {history[-1].item():.4f}")
        print(f"relative error on hidden pixels {relative_error(clean[~keep], full[~keep]):.4f}, "
              f"compression {observed.numel() / model.numel():.1f}x")


if __name__ == "__main__":
    main()
