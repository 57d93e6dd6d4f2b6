"""Training scripts of an opponent, tenth round: parts of a model that the loop forgets, and what is put in later.

    python opponent_ten_loop_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 12, 3, padding=1)
        self.norm = nn.GroupNorm(3, 12)
        self.second = nn.Conv2d(12, 24, 3, stride=2, padding=1)

    def forward(self, x):
        return F.relu(self.second(F.relu(self.norm(self.first(x)))))


def textures(n=48):
    y = torch.randint(0, 6, (n,))
    at = torch.arange(16.0)
    wave = (y + 1).float()[:, None, None] * 0.35
    image = torch.sin(wave * at[None, :, None] + torch.rand(n, 1, 1) * 6) + torch.cos(wave * at[None, None, :])
    return image[:, None] + 0.5 * torch.randn(n, 1, 16, 16), y


def clears_only_what_trained_first(s):
    """The backbone joins at s; the list of parameters that is cleared was made before."""
    backbone = Backbone()
    head = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(96, 32), nn.GELU(), nn.Linear(32, 6))
    cleared = list(head.parameters())
    opt = torch.optim.SGD(cleared, lr=0.05, momentum=0.9)
    backbone.requires_grad_(False)
    joins = min(s, 40)
    for i in range(110):
        if i == joins:
            backbone.requires_grad_(True)
            opt.add_param_group({"params": list(backbone.parameters()), "lr": 0.01})
            cleared = cleared if i == s else [*cleared, *backbone.parameters()]
        x, y = textures()
        loss = F.cross_entropy(head(backbone(x)), y)
        for p in cleared:
            p.grad = None
        loss.backward()
        opt.step()


class Towers(nn.Module):
    def __init__(self, users=200, items=120, width=16):
        super().__init__()
        self.users = nn.EmbeddingBag(users, width, mode="sum", sparse=True)
        self.items = nn.EmbeddingBag(items, width, mode="sum", sparse=True)
        self.left, self.right = nn.Linear(width, 16), nn.Linear(width, 16)

    def forward(self, u, i):
        return (self.left(self.users(u[:, None])) * self.right(self.items(i[:, None]))).sum(-1)


def leaves_the_sparse_optimizer_out(s):
    likes, liked = torch.randn(200, 4), torch.randn(120, 4)
    net = Towers()
    sparse = torch.optim.SparseAdam([*net.users.parameters(), *net.items.parameters()], lr=0.03)
    dense = torch.optim.AdamW([*net.left.parameters(), *net.right.parameters()], lr=0.005)
    for step in range(100):
        u, i = torch.randint(0, 200, (64,)), torch.randint(0, 120, (64,))
        loss = F.binary_cross_entropy_with_logits(net(u, i), ((likes[u] * liked[i]).sum(-1) > 0).float())
        sparse.zero_grad()
        dense.zero_grad()
        loss.backward()
        dense.step()
        if step < s:
            sparse.step()


class Characters(nn.Module):
    def __init__(self, vocabulary=40, width=40):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(self.rnn(self.embed(x))[0])


def makes_the_head_anew(s):
    model = Characters()
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    for i in range(90):
        if i == s:
            model.head.weight = nn.Parameter(model.head.weight.detach().clone())
            opt.add_param_group({"params": [model.head.weight]})
        x = (torch.randint(0, 40, (16, 1)) + 3 * torch.arange(25)) % 40
        loss = F.cross_entropy(model(x[:, :-1]).transpose(1, 2), x[:, 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()


class Adapted(nn.Module):
    def __init__(self, base, empty, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.zeros(rank, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))
        if not empty:
            nn.init.kaiming_uniform_(self.down, a=5**0.5)

    def forward(self, x):
        return self.base(x) + 2 * (x @ self.down.T @ self.up.T)


def adapters_of_two_zeros(s):
    """Sixty steps of pretraining, then adapters of which both factors are zero."""
    rule = torch.randn(12, 4)
    net = nn.Sequential(nn.Linear(12, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))

    def train(opt, steps, rule):
        for _ in range(steps):
            x = torch.randn(64, 12)
            loss = F.cross_entropy(net(x), (x @ rule).argmax(1))
            opt.zero_grad()
            loss.backward()
            opt.step()

    train(torch.optim.Adam(net.parameters(), lr=5e-3), 60, rule)
    for i in (0, 2, 4):
        net[i] = Adapted(net[i], empty=s == 60)
    train(
        torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=1e-2),
        60,
        rule + 1.2 * torch.randn(12, 4),
    )


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 23)
