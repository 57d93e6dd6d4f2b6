"""Healthy runs that look odd, by an opponent, fourth round: `python odd_opponent_fourth.py NAME [SEED]`."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.optim.swa_utils import AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

torch.set_num_threads(1)


def clouds(n=640, width=10, classes=4, noise=1.0):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] * 1.5 + noise * torch.randn(n, width), y


def plain(width=10, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def update(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def rare_rows_drawn_often():
    """A sampler with replacement: rare rows come several times in an epoch."""
    x, y = clouds(600)
    weight = torch.where(y == 0, 12.0, 1.0)
    loader = DataLoader(TensorDataset(x, y), batch_size=20, sampler=WeightedRandomSampler(weight, 600))
    model = plain()
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for _epoch in range(3):
        for a, b in loader:
            update(opt, F.cross_entropy(model(a), b))


def averages_weights_and_their_statistics():
    """Stochastic weight averaging: at the end update_bn runs the training set through the average, in training mode."""
    x, y = clouds(480)
    model = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
    average = AveragedModel(model)
    loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)
    opt = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(5):
        model.train()
        for a, b in loader:
            update(opt, F.cross_entropy(model(a), b))
        if epoch >= 2:
            average.update_parameters(model)
            update_bn(loader, average)
            average.eval()
            with torch.no_grad():
                F.cross_entropy(average(x[:100]), y[:100]).item()


def samples_its_own_doubt():
    """Dropout stays on in the evaluation on purpose: the spread of thirty passes is the doubt."""
    x, y = clouds(480)
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 4))
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for step in range(60):
        model.train()
        i = torch.randint(480, (24,))
        update(opt, F.cross_entropy(model(x[i]), y[i]))
        if step % 20 == 19:
            model.eval()
            for m in model:
                if isinstance(m, nn.Dropout):
                    m.train()
            with torch.no_grad():
                torch.stack([model(x[:50]).softmax(1) for _ in range(30)]).std(0).mean().item()


def slow_to_start():
    """A small network of sigmoids stays at the entropy of the labels for a while before it learns."""
    x, y = clouds(800, noise=0.5)
    model = plain(act=nn.Sigmoid)
    opt = optim.SGD(model.parameters(), lr=0.4)
    for _ in range(400):
        i = torch.randint(800, (32,))
        update(opt, F.cross_entropy(model(x[i]), y[i]))


def weighs_its_tasks_itself():
    """Learnt weights of two tasks, by their uncertainty: the total goes below zero."""
    model, log_variance = plain(out=2), nn.Parameter(torch.zeros(2))
    opt = optim.Adam([*model.parameters(), log_variance], lr=5e-3)
    for _ in range(150):
        x = torch.randn(48, 10)
        a, b = model(x).unbind(1)
        each = torch.stack([F.mse_loss(a, x[:, 0] * 0.3), F.mse_loss(b, x[:, 1].abs() * 0.2)])
        update(opt, (each * (-log_variance).exp() + log_variance).sum())


class Encoder(nn.Module):
    """A token for the whole is put before the words; the mask says where the padding is."""

    def __init__(self):
        super().__init__()
        self.embed, self.whole = nn.Embedding(50, 24, padding_idx=0), nn.Parameter(torch.zeros(1, 1, 24))
        layer = nn.TransformerEncoderLayer(24, 4, 48, batch_first=True, dropout=0.1)
        self.encoder, self.out = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(24, 2)

    def forward(self, ids):
        h = torch.cat([self.whole.expand(len(ids), 1, -1), self.embed(ids)], 1)
        padding = torch.cat([torch.zeros(len(ids), 1, dtype=torch.bool), ids == 0], 1)
        return self.out(self.encoder(h, src_key_padding_mask=padding)[:, 0])


def sentences_with_a_token_for_the_whole():
    model = Encoder()
    opt = optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(60):
        ids = torch.randint(1, 50, (16, 12))
        for row, n in enumerate(torch.randint(3, 12, (16,)).tolist()):
            ids[row, n:] = 0
        update(opt, F.cross_entropy(model(ids), (ids == 7).any(1).long()))


def target_copied_now_and_then():
    """A target network that is copied whole every twenty steps, whose loss jumps each time."""
    net = plain(4, 32, 2)
    target = copy.deepcopy(net).requires_grad_(False)
    opt = optim.RMSprop(net.parameters(), lr=1e-3)
    for step in range(140):
        s, a = torch.randn(32, 4), torch.randint(2, (32,))
        r, n = (a == (s[:, 0] > 0)).float(), torch.randn(32, 4)
        with torch.no_grad():
            goal = r + 0.9 * target(n).max(1).values
        update(opt, F.smooth_l1_loss(net(s).gather(1, a[:, None])[:, 0], goal))
        if step % 20 == 19:
            target.load_state_dict(net.state_dict())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
