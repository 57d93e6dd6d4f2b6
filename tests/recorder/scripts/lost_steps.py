"""A training that loses the value of one step and survives it: `python lost_steps.py KIND OPTIMIZER [own]`.

Knows nothing of firstfault. It prints whatever must be
the same with and without recording: losses, random numbers, side effects of the forward, weights.
"""

import hashlib
import sys
import warnings

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
warnings.simplefilter("error")  # a scheduler that thinks its optimizer was not called warns
BAD = 5


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 4)
        self.drop = nn.Dropout(0.5)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("calls", torch.zeros(()))
        self.history = []
        self.last = None

    def forward(self, x, kind=None):
        self.calls += 1
        self.history.append(len(self.history))
        self.last = x = self.norm(self.drop(self.fc(x)))
        print("head", int(self.calls), len(self.history))
        if kind == "log":
            return torch.log(F.softmax(x * 1000, -1))
        if kind == "dropout":
            return x / F.dropout(torch.ones(32, 4), 0.5)
        if kind == "sqrt":
            return x + torch.sqrt((x - x) ** 2)
        return x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(inplace=True))
        self.head = Head()

    def forward(self, x, *, kind=None):
        return self.head(self.body(x), kind)


OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, 1e-2, weight_decay=0.1),
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "scaler": lambda p: torch.optim.Adam(p, 1e-2),
    "lbfgs": lambda p: torch.optim.LBFGS(p, 0.1, max_iter=3),
}


def main(kind, optimizer, own_skip):
    torch.manual_seed(0)
    net = Net()
    opt = OPTIMIZERS[optimizer](net.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(opt, 2)
    scaler = torch.amp.GradScaler("cpu", enabled=optimizer == "scaler")
    for i in range(9):
        x, y = torch.randn(32, 8), torch.randint(4, (32,))

        def closure(i=i, x=x, y=y):
            opt.zero_grad()
            loss = F.cross_entropy(net(x, kind=kind if i == BAD else None), y)
            scaler.scale(loss).backward()
            return loss

        if optimizer == "lbfgs":
            opt.step(closure)
        else:
            loss = closure()
            print(loss.item().hex() if torch.isfinite(loss) else loss.item(), torch.rand(1).item().hex())
            if own_skip and not torch.isfinite(torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)):
                print("left out", i)
                continue
            scaler.step(opt)
            scaler.update()
        schedule.step()
    digest = hashlib.sha256()
    for value in net.state_dict().values():
        digest.update(value.numpy().tobytes())
    finite = all(bool(p.isfinite().all()) for p in net.parameters())
    print(digest.hexdigest(), "finite" if finite else "lost")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], own_skip="own" in sys.argv)
