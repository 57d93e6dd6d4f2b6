import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class ATan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, u):
        ctx.save_for_backward(u)
        return (u > 0).float()

    @staticmethod
    def backward(ctx, grad):
        (u,) = ctx.saved_tensors
        return grad / (1 + (3.1416 * u / 2).pow(2))


class Leaky(nn.Module):
    """Leaky integrate and fire neuron holding its own membrane potential."""

    def __init__(self, beta, output=False):
        super().__init__()
        self.beta, self.output = beta, output
        self.mem = None

    def reset_hidden(self):
        self.mem = None

    def forward(self, x):
        if self.mem is None:
            self.mem = torch.zeros_like(x)
        spk = ATan.apply(self.mem - 1.0)
        self.mem = self.beta * self.mem + x - spk.detach()
        spk = ATan.apply(self.mem - 1.0)
        return (spk, self.mem) if self.output else spk


def reset(net):
    for m in net.modules():
        if isinstance(m, Leaky):
            m.reset_hidden()


class SCNN(nn.Module):
    def __init__(self, num_steps=8, beta=0.8):
        super().__init__()
        self.num_steps = num_steps
        self.net = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.MaxPool2d(2), Leaky(beta),
            nn.Flatten(), nn.Linear(8 * 36, 48), Leaky(beta),
            nn.Linear(48, 4), Leaky(beta, output=True))

    def forward(self, x):
        mem_rec, spk_rec = [], []
        reset(self.net)
        for _ in range(self.num_steps):
            spk, mem = self.net(x)
            spk_rec.append(spk)
            mem_rec.append(mem)
        return torch.stack(spk_rec), torch.stack(mem_rec)


def stripes(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 4, (n,), generator=g)
    base = torch.zeros(4, 12, 12)
    base[0, ::3] = 1
    base[1, :, ::3] = 1
    for i in range(12):
        base[2, i, (i % 4)::4] = 1
        base[3, i, (-i % 4)::4] = 1
    x = base[y] * 1.5 - 0.4 + 0.5 * torch.randn(n, 12, 12, generator=g)
    return TensorDataset(x[:, None], y)


def main():
    torch.manual_seed(0)
    train_loader = DataLoader(stripes(1280, 1), batch_size=64, shuffle=True)
    test_loader = DataLoader(stripes(320, 2), batch_size=64)
    net = SCNN()
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    for epoch in range(6):
        net.train()
        total = 0.0
        for data, targets in train_loader:
            spk_rec, mem_rec = net(data)
            loss = sum(loss_fn(m, targets) for m in mem_rec) / net.num_steps
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        net.eval()
        correct = 0
        with torch.no_grad():
            for data, targets in test_loader:
                spk_rec, mem_rec = net(data)
                correct += (mem_rec.mean(0).argmax(1) == targets).sum().item()
        print(f"epoch {epoch}: loss {total / len(train_loader):.4f} test acc {correct / 320:.3f}")


if __name__ == "__main__":
    main()
