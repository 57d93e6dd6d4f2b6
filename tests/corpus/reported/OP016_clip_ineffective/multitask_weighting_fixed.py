import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class FAMO:
    """Fast adaptive task weighting: a single backward pass per iteration."""

    def __init__(self, n_tasks, gamma=1e-3, w_lr=0.025, max_norm=0.3):
        self.min_losses = torch.zeros(n_tasks)
        self.w = torch.zeros(n_tasks, requires_grad=True)
        self.w_opt = torch.optim.Adam([self.w], lr=w_lr, weight_decay=gamma)
        self.max_norm = max_norm
        self.prev_loss = None

    def get_weighted_loss(self, losses):
        self.prev_loss = losses.detach()
        z = F.softmax(self.w, -1).detach()
        d = losses - self.min_losses + 1e-8
        c = (z / d).sum().detach()
        return (d.log() * z / c).sum()

    def update(self, curr_loss):
        delta = (self.prev_loss - self.min_losses + 1e-8).log() - (curr_loss - self.min_losses + 1e-8).log()
        with torch.enable_grad():
            d = torch.autograd.grad(F.softmax(self.w, -1), self.w, grad_outputs=delta.detach())[0]
        self.w_opt.zero_grad()
        self.w.grad = d
        self.w_opt.step()

    def backward(self, losses, shared_parameters):
        loss = self.get_weighted_loss(losses)
        loss.backward()
        if self.max_norm > 0:
            torch.nn.utils.clip_grad_norm_(shared_parameters, self.max_norm)
        return loss


class SharedNet(nn.Module):
    def __init__(self, d_in=20, hidden=64):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(d_in, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.heads = nn.ModuleList([nn.Linear(hidden, 1), nn.Linear(hidden, 1), nn.Linear(hidden, 4)])

    def forward(self, x):
        h = self.shared(x)
        return [head(h) for head in self.heads]


def build(n, seed):
    w = torch.randn(20, 6, generator=torch.Generator().manual_seed(23)) / 20 ** 0.5
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 20, generator=g)
    z = x @ w
    depth = 8.0 * torch.tanh(z[:, :1] * z[:, 1:2]) + 0.1 * torch.randn(n, 1, generator=g)
    normal = torch.sin(2 * z[:, 2:3]) + 0.1 * torch.randn(n, 1, generator=g)
    label = (z[:, 4] > 0).long() * 2 + (z[:, 5] > 0).long()
    return TensorDataset(x, depth, normal, label)


def task_losses(model, batch):
    x, depth, normal, label = batch
    p_depth, p_normal, p_label = model(x)
    return torch.stack([F.mse_loss(p_depth, depth), F.mse_loss(p_normal, normal), F.cross_entropy(p_label, label)])


def main():
    torch.manual_seed(5)
    train_loader = DataLoader(build(4096, 0), batch_size=128, shuffle=True)
    val_loader = DataLoader(build(1024, 1), batch_size=256)
    model = SharedNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    weighting = FAMO(3)

    for epoch in range(8):
        model.train()
        running = torch.zeros(3)
        for batch in train_loader:
            losses = task_losses(model, batch)
            optimizer.zero_grad()
            weighting.backward(losses, model.shared.parameters())
            optimizer.step()
            with torch.no_grad():
                weighting.update(task_losses(model, batch))
            running += losses.detach()
        model.eval()
        with torch.no_grad():
            val = torch.stack([task_losses(model, b) for b in val_loader]).mean(0)
        weights = F.softmax(weighting.w, -1).tolist()
        print(f"epoch {epoch:2d} train {[round(v, 3) for v in (running / len(train_loader)).tolist()]} "
              f"val {[round(v, 3) for v in val.tolist()]} w {[round(v, 3) for v in weights]}")


if __name__ == "__main__":
    main()
