from copy import deepcopy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

N_AGENTS, ROUNDS, BATCH = 5, 15, 32


class MLPNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 128)
        self.fc2 = nn.Linear(128, 64)
        self.fc3 = nn.Linear(64, 10)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


def make_split(n, seed):
    protos = torch.randn(10, 64, generator=torch.Generator().manual_seed(0))
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 10, (n,), generator=g)
    return TensorDataset((protos[y] + 1.5 * torch.randn(n, 64, generator=g)) / 1.8, y)


def train_model(model, loader, loss_fn, optimizer, scheduler=None, E=1):
    model.train()
    seen, total = 0, 0.0
    for _ in range(E):
        for data, label in loader:
            optimizer.zero_grad()
            loss = loss_fn(model(data), label)
            loss.backward()
            total += loss.item() * len(label)
            seen += len(label)
            optimizer.step()
            if scheduler:
                scheduler.step()
    return total / seen


@torch.no_grad()
def evaluate(model, loader, loss_fn):
    model.eval()
    loss, correct, n = 0.0, 0, 0
    for x, y in loader:
        out = model(x)
        loss += loss_fn(out, y).item() * len(y)
        correct += (out.argmax(1) == y).sum().item()
        n += len(y)
    return loss / n, correct / n


def average(models):
    states = [m.state_dict() for m in models]
    return {k: torch.stack([s[k] for s in states]).mean(0) for k in states[0]}


def main():
    torch.manual_seed(1234)
    server = MLPNet()
    agents = [deepcopy(server) for _ in range(N_AGENTS)]
    loaders = [DataLoader(make_split(256, 10 + i), batch_size=BATCH, shuffle=True) for i in range(N_AGENTS)]
    test_loader = DataLoader(make_split(1000, 99), batch_size=250)
    optimizers = [torch.optim.SGD(a.parameters(), lr=0.1) for a in agents]
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(o, gamma=0.995) for o in optimizers]
    loss_fn = nn.CrossEntropyLoss()
    for rnd in range(ROUNDS):
        losses = [train_model(a, l, loss_fn, o, s) for a, l, o, s in zip(agents, loaders, optimizers, schedulers)]
        merged = average(agents)
        server.load_state_dict(merged)
        for agent in agents:
            agent.load_state_dict(merged)
        test_loss, acc = evaluate(server, test_loader, loss_fn)
        print(f"round {rnd:02d} train {sum(losses) / N_AGENTS:.4f} test {test_loss:.4f} acc {acc:.4f}")


if __name__ == "__main__":
    main()
