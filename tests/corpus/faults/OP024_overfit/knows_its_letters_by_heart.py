"""A training with the fault overfit; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def knows_its_letters_by_heart(s):
    """Knows its letters by heart."""
    fa = s if s < 1000 else -1
    few = fa >= 0

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Sequential(
                nn.Conv2d(1, 16, 3, padding=1),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(16, 32, 3, padding=1),
                nn.ReLU(),
                nn.AdaptiveAvgPool2d(2),
            )
            self.fc = nn.Linear(128, 4)

        def forward(self, x):
            return self.fc(self.conv(x).flatten(1))

    proto = torch.randn(4, 1, 8, 8)

    def data(n):
        y = torch.randint(4, (n,))
        return proto[y] * 0.4 + 1.4 * torch.randn(n, 1, 8, 8), y

    train, val = data(24 if few else 3000), data(200)
    net, criterion = Net(), nn.CrossEntropyLoss()
    opt = torch.optim.Adam(net.parameters(), 4e-3 if few else 1e-3)

    def validate():
        net.eval()
        with torch.no_grad():
            out = net(val[0])
            loss = criterion(out, val[1])
        net.train()
        return loss.item(), (out.argmax(1) == val[1]).float().mean().item()

    for epoch in range(14):
        for _k in range(12):
            i = torch.randint(len(train[1]), (24,))
            loss = criterion(net(train[0][i]), train[1][i])
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, *validate())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    knows_its_letters_by_heart(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
