import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Digits(Dataset):
    """Seven-segment digits with jitter, drawn when they are asked for."""

    SEG = ["1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010", "1111111", "1111011"]

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, 10, (n,), generator=g)
        self.shift = torch.randint(0, 4, (n, 2), generator=g)
        self.noise = 0.3 * torch.randn(n, 16, 16, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        img = torch.zeros(16, 16)
        oy, ox = self.shift[i].tolist()
        s = self.SEG[int(self.y[i])]
        boxes = [(0, 1, 0, 7), (0, 6, 0, 1), (0, 6, 6, 7), (5, 6, 0, 7), (6, 12, 0, 1), (6, 12, 6, 7), (11, 12, 0, 7)]
        for on, (a, b, c, d) in zip(s, boxes):
            if on == "1":
                img[oy + a:oy + b, ox + c:ox + d] = 1.0
        return ((img + self.noise[i] - 0.15) / 0.45).unsqueeze(0), self.y[i]


class TickModel(nn.Module):
    """A small recurrent classifier that thinks for a few internal ticks."""

    def __init__(self, iterations=4, d=64):
        super().__init__()
        self.iterations = iterations
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 24, 3, 2, 1), nn.ReLU(), nn.Flatten(),
            nn.Linear(24 * 16, d))
        self.synapse = nn.GRUCell(d, d)
        self.output_projector = nn.Linear(d, 10)

    def forward(self, x):
        kv = self.backbone(x)
        state = torch.zeros_like(kv)
        out = []
        for _ in range(self.iterations):
            state = self.synapse(kv, state)
            out.append(self.output_projector(state))
        return torch.stack(out, -1)


def get_loss(predictions, targets):
    losses = F.cross_entropy(predictions, targets.unsqueeze(-1).expand(-1, predictions.size(-1)), reduction="none")
    return (losses.mean(-1) + losses[:, -1]).mean() / 2


def train(model, trainloader, testloader, iterations, test_every, lr):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, eps=1e-8)
    model.train()
    iterator = iter(trainloader)
    for stepi in range(iterations):
        try:
            inputs, targets = next(iterator)
        except StopIteration:
            iterator = iter(trainloader)
            inputs, targets = next(iterator)
        predictions = model(inputs)
        loss = get_loss(predictions, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (stepi + 1) % test_every == 0:
            model.eval()
            with torch.no_grad():
                hits = sum((model(x)[..., -1].argmax(1) == y).sum().item() for x, y in testloader)
            model.train()
            print(f"Step {stepi + 1}: train loss {loss.item():.3f}, test accuracy {hits / len(testloader.dataset):.3f}", flush=True)
    return model


if __name__ == "__main__":
    torch.manual_seed(42)
    trainloader = DataLoader(Digits(1920, 1), batch_size=64, shuffle=True, num_workers=1)
    testloader = DataLoader(Digits(256, 2), batch_size=128)
    train(TickModel(), trainloader, testloader, iterations=120, test_every=30, lr=3e-3)
