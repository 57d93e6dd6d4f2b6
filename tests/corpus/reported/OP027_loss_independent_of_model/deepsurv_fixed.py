"""DeepSurv (Cox proportional hazards network) on simulated patients."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset


def simulate(n, dim, seed):
    """Exponential survival times with a non linear log risk, uniform censoring."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, dim)).astype(np.float32)
    risk = 1.5 * x[:, 0] - 1.0 * x[:, 1] + 2.0 * np.exp(-(x[:, 2] ** 2 + x[:, 3] ** 2) / 0.5) + x[:, 4] * x[:, 5]
    t = rng.exponential(5.0 * np.exp(-risk))
    c = rng.uniform(0, np.quantile(t, 0.9), n)
    y = np.minimum(t, c).astype(np.float32)
    e = (t <= c).astype(np.float32)
    return x, y[:, None], e[:, None]


class Regularization(object):
    def __init__(self, order, weight_decay):
        self.order = order
        self.weight_decay = weight_decay

    def __call__(self, model):
        reg_loss = 0
        for name, w in model.named_parameters():
            if "weight" in name:
                reg_loss = reg_loss + torch.norm(w, p=self.order)
        return self.weight_decay * reg_loss


class DeepSurv(nn.Module):
    def __init__(self, config):
        super().__init__()
        layers = []
        dims = config["dims"]
        for i in range(len(dims) - 1):
            if i and config["drop"] is not None:
                layers.append(nn.Dropout(config["drop"]))
            layers.append(nn.Linear(dims[i], dims[i + 1]))
            if i < len(dims) - 2:
                layers.append(nn.ReLU())
        self.model = nn.Sequential(*layers)

    def forward(self, x):
        return self.model(x)


class NegativeLogLikelihood(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.reg = Regularization(order=2, weight_decay=config["l2_reg"])

    def forward(self, risk_pred, y, e, model):
        mask = torch.ones(y.shape[0], y.shape[0])
        mask[(y.T - y) > 0] = 0
        log_loss = torch.exp(risk_pred) * mask
        log_loss = torch.sum(log_loss, dim=0) / torch.sum(mask, dim=0)
        log_loss = torch.log(log_loss).reshape(-1, 1)
        neg_log_loss = -torch.sum((risk_pred - log_loss) * e) / torch.sum(e)
        return neg_log_loss + self.reg(model)


def c_index(risk, y, e):
    """Harrell's concordance."""
    risk, y, e = risk.ravel(), y.ravel(), e.ravel().astype(bool)
    earlier = (y[:, None] < y[None, :]) & e[:, None]
    good = (risk[:, None] > risk[None, :]) & earlier
    ties = (risk[:, None] == risk[None, :]) & earlier
    return (good.sum() + 0.5 * ties.sum()) / earlier.sum()


def evaluate(model, criterion, x, y, e):
    model.eval()
    with torch.no_grad():
        risk = model(x)
        loss = criterion(risk, y, e, model).item()
    return loss, c_index(risk.numpy(), y.numpy(), e.numpy())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    config = {"dims": [12, 384, 384, 1], "drop": 0.1, "l2_reg": 1e-4}
    train = [torch.from_numpy(a) for a in simulate(16384, 12, 1)]
    valid = [torch.from_numpy(a) for a in simulate(1500, 12, 2)]
    loader = DataLoader(TensorDataset(*train), batch_size=args.batch_size, shuffle=True)
    model = DeepSurv(config)
    criterion = NegativeLogLikelihood(config)
    optimizer = optim.Adam(model.parameters(), lr=args.lr)

    best = 0.0
    for epoch in range(args.epochs):
        model.train()
        losses = []
        for x, y, e in loader:
            risk_pred = model(x)
            loss = criterion(risk_pred, y, e, model)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        valid_loss, valid_c = evaluate(model, criterion, *valid)
        best = max(best, valid_c)
        print("Epoch: {}\tLoss: {:.6f}({:.6f})\tc-index: {:.4f}".format(
            epoch, np.mean(losses), valid_loss, valid_c), flush=True)
    print("best valid c-index: {:.4f}".format(best))


if __name__ == "__main__":
    main()
