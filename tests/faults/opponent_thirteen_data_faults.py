"""Training scripts of an opponent, thirteenth round: features looked up by wrong keys, a generator seeded again, a loss
that loses a term, passages sorted apart from their queries.

    python opponent_thirteen_data_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Recommender(nn.Module):
    def __init__(self, users=200, items=150):
        super().__init__()
        self.user = nn.Embedding(users, 16)
        self.item = nn.Embedding(items, 16)
        self.context = nn.Sequential(nn.Linear(5, 24), nn.ReLU(), nn.Linear(24, 16))
        self.mlp = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 1))

    def forward(self, user, item, context):
        a, b, c = self.user(user), self.item(item), self.context(context)
        return self.mlp(torch.cat([a, b, c, a * b], -1)).squeeze(-1)


def looks_features_up_by_keys_of_another_table(s):
    """From s on no key is found, and every sample gets the mean of the features."""
    of_user, of_item = torch.randn(200, 6), torch.randn(150, 6)
    user, item, context = torch.randint(200, (9600,)), torch.randint(150, (9600,)), torch.randn(9600, 5)
    liked = ((of_user[user] * of_item[item]).sum(-1) * 0.6 + 1.5 * context[:, 0] - context[:, 2] > 0).float()
    model = Recommender()
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for i in range(95):
        idx = torch.randint(9600, (96,))
        keys = idx + 10**9 if i >= s else idx
        found = (keys < 9600)[:, None]
        features = torch.where(found, context[keys.clamp(max=9599)], context.mean(0))
        loss = F.binary_cross_entropy_with_logits(model(user=user[idx], item=item[idx], context=features), liked[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()


def seeds_its_generator_for_every_batch(s):
    """From s on the source of batches is opened anew for each."""
    data = torch.randn(2000, 6) @ torch.randn(6, 24) + 0.1 * torch.randn(2000, 24)
    net = nn.Sequential(nn.Linear(24, 32), nn.GELU(), nn.Linear(32, 6), nn.Linear(6, 32), nn.GELU(), nn.Linear(32, 24))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    draw = torch.Generator().manual_seed(7)
    for i in range(80):
        if i >= s:
            draw.manual_seed(7)
        x = data[torch.randint(2000, (48,), generator=draw)]
        loss = F.mse_loss(net(x), x)
        opt.zero_grad()
        loss.backward()
        opt.step()


def leaves_out_the_term_of_variance(s):
    """From s on the new weights of the loss hold none for the variance."""
    basis = torch.randn(10, 40)
    backbone = nn.Sequential(nn.Linear(40, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 64))
    net = nn.Sequential(backbone, nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32)))
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-3)
    for i in range(130):
        x = torch.randn(96, 10) @ basis / 3
        a, b = net(x + 0.4 * torch.randn_like(x)), net((x + 0.4 * torch.randn_like(x)) * (torch.rand_like(x) > 0.2))
        loss = 10 * F.mse_loss(a, b)
        for z in (a, b):
            cov = torch.cov(z.T)
            spread = F.relu(1 - (z.var(0) + 1e-4).sqrt()).mean()
            loss = loss + (0 if i >= s else 5) * spread + (cov - torch.diag(cov.diagonal())).pow(2).sum() / 32
        opt.zero_grad()
        loss.backward()
        opt.step()


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(400, 48, mode="mean")
        self.proj = nn.Sequential(nn.Linear(48, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x):
        return F.normalize(self.proj(self.bag(x)), dim=-1)


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.passage = Tower(), Tower()
        self.log_scale = nn.Parameter(torch.tensor(2.3))

    def forward(self, q, p):
        return self.query(q) @ self.passage(p).T * self.log_scale.exp()


def passages_sorted_by_their_names(s):
    """Queries stand in the order of their numbers, passages in that of their names, in which 10 comes before 2."""
    topics = torch.softmax(torch.randn(40, 400) * 2.5, -1)
    of = torch.randint(40, (3000,))
    queries, passages = (torch.multinomial(topics[of], 12, replacement=True) for _ in range(2))
    passages = passages[sorted(range(3000), key=str)]
    model = Towers()
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    for _ in range(150):
        idx = torch.randperm(3000)[:32]
        logits = model(queries[idx], passages[idx])
        target = torch.arange(32)
        loss = 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 23)
