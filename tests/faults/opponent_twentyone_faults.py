"""Training scripts after an opponent's, twenty-first round: copies that follow no more, padding by another number, and
what is lost in the middle of a run.

    python opponent_twentyone_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def target_overwritten_no_more(s):
    """Values learnt from a second network that takes over the weights every ten steps, and from s on never again."""
    values = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 3))
    target = copy.deepcopy(values)
    opt = torch.optim.Adam(values.parameters(), lr=1e-3)
    turn = torch.randn(6, 3) / 2
    for i in range(260):
        now = torch.randn(64, 6)
        act = torch.randint(0, 3, (64, 1))
        reward = (now @ turn).gather(1, act)[:, 0]
        later = torch.tanh(now + 0.2 * torch.randn(64, 6))
        with torch.no_grad():
            goal = reward + 0.8 * target(later).max(1).values
        loss = F.smooth_l1_loss(values(now).gather(1, act)[:, 0], goal)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 10 == 0 and i < s:
            target.load_state_dict(values.state_dict())


class Average:
    """A moving average of the model that it was given."""

    def __init__(self, model, keep):
        self.model, self.keep = model, keep
        self.shadow = copy.deepcopy(model).requires_grad_(requires_grad=False)

    @torch.no_grad()
    def update(self):
        for mine, theirs in zip(self.shadow.parameters(), self.model.parameters(), strict=True):
            mine.lerp_(theirs, 1 - self.keep)


def average_of_the_model_before(s):
    """At s the model is built anew with the same weights for another stage; its average goes on with the object of before."""

    def build():
        return nn.Sequential(nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 5))

    model = build()
    average = Average(model, 0.98)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    turn = torch.randn(16, 5)
    for i in range(240):
        if i == s:
            weights = model.state_dict()
            model = build()
            model.load_state_dict(weights)
            opt = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
        x = torch.randn(48, 16)
        loss = F.cross_entropy(model(x), (x @ turn).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        average.update()
        if i % 40 == 39:
            with torch.no_grad():
                seen = torch.randn(200, 16)
                print(i, float((average.shadow(seen).argmax(1) == (seen @ turn).argmax(1)).float().mean()))


class Tagger(nn.Module):
    """Tags each word; padding is word 1."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(30, 32, padding_idx=1)
        self.mix = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.tags = nn.Linear(32, 4)

    def forward(self, x):
        return self.tags(self.mix(self.words(x), src_key_padding_mask=x == 1))


def padded_with_another_number(s):
    """From s on the batches are padded with 0, which the model takes for a word."""
    net = Tagger()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    for i in range(160):
        lengths = torch.randint(4, 13, (24,))
        lengths[0] = 12
        x = torch.randint(2, 30, (24, 12))
        y = (x + x.roll(1, 1)) % 4
        behind = torch.arange(12) >= lengths[:, None]
        x = x.masked_fill(behind, 1 if i < s else 0)
        y = y.masked_fill(behind, -100)
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten(), ignore_index=-100)
        opt.zero_grad()
        loss.backward()
        opt.step()


def stop_gradient_lost(s):
    """Two views with a predictor; from s on the other view gets gradients, too."""
    body = nn.Sequential(nn.Linear(32, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 32))
    guess = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 32))
    opt = torch.optim.SGD([*body.parameters(), *guess.parameters()], lr=0.05, momentum=0.9)
    centres = torch.randn(16, 32)
    for i in range(440):
        x = centres[torch.randint(0, 16, (64,))]
        one, two = body(x + 0.7 * torch.randn(64, 32)), body(x + 0.7 * torch.randn(64, 32))
        to_one, to_two = (one, two) if i >= s else (one.detach(), two.detach())
        loss = -(F.cosine_similarity(guess(one), to_two).mean() + F.cosine_similarity(guess(two), to_one).mean()) / 2
        opt.zero_grad()
        loss.backward()
        opt.step()


def two_samples_a_batch_from_there(s):
    """For longer inputs the batch is made smaller, to two samples, in a net that normalises over the batch."""
    net = nn.Sequential(nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    base = torch.randn(4, 32)
    for i in range(160):
        x = torch.tanh(torch.randn(32 if i < s else 2, 4) @ base)
        loss = F.mse_loss(net(x), x)
        opt.zero_grad()
        loss.backward()
        opt.step()


def split_drawn_again(s):
    """At s samples are split again, and what was held out until then is trained on."""
    x = torch.randn(480, 20)
    y = (x @ torch.randn(20) + 0.5 * torch.randn(480) > 0).float()
    net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 1))
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    kept, held = x[:320], slice(320, None)
    step = 0
    targets = y[:320]
    while step < 160:
        if step >= s:
            order = torch.randperm(480)[:320]
            kept, targets = x[order], y[order]
            s = 10**9
        for a, b in DataLoader(TensorDataset(kept, targets), batch_size=32, shuffle=True):
            loss = F.binary_cross_entropy_with_logits(net(a)[:, 0], b)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
        with torch.no_grad():
            for a, b in DataLoader(TensorDataset(x[held], y[held]), batch_size=80):
                F.binary_cross_entropy_with_logits(net(a)[:, 0], b).item()


def hardest_pairs_without_an_epsilon(s):
    """Distances within a batch, whose zeros of each sample to itself are among the positives; from s on the eps is gone."""
    net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 16))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    centres = 2 * torch.randn(8, 20)
    for i in range(160):
        y = torch.randint(0, 8, (40,))
        z = net(centres[y] + torch.randn(40, 20))
        apart = torch.sqrt((z[:, None] - z[None]).square().sum(-1) + (1e-8 if i < s else 0.0))
        same = y[:, None] == y[None]
        far = (apart * same).sum(1) / same.sum(1)
        near = apart.masked_fill(same, 1e9).min(1).values
        loss = F.relu(1 + far - near).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def head_drawn_too_wide(s):
    """At s other labels come, and with them a head whose weights are drawn with a width of one."""
    body = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
    head = nn.Linear(128, 4)
    opt = torch.optim.AdamW([*body.parameters(), *head.parameters()], lr=1e-3)
    first, second = torch.randn(20, 4), torch.randn(20, 8)
    for i in range(200):
        if i == s:
            head = nn.Linear(128, 8)
            nn.init.normal_(head.weight)
            opt = torch.optim.AdamW(
                [{"params": body.parameters(), "lr": 3e-4}, {"params": head.parameters(), "lr": 1e-3}]
            )
        x = torch.randn(32, 20)
        loss = F.cross_entropy(head(body(x)), (x @ (first if i < s else second)).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


def schedule_of_the_optimizer_before(s):
    """At s training goes on with another optimizer and a schedule for it, but the loop steps the schedule of the first."""
    net = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 4))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(opt, 20, 0.9)
    turn = torch.randn(16, 4)
    for i in range(180):
        if i == s:
            opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
            later = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 180 - s)
        x = torch.randn(48, 16)
        loss = F.cross_entropy(net(x), (x @ turn).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        schedule.step()
    if s < 180:
        print(later.get_last_lr())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 60)
