"""Training scripts of an opponent, fifth round: what the other files of the round left out.

    python opponent_fifth_more_faults.py NAME [ONSET] [SEED]

As in opponent_fifth_faults.py: with an onset beyond the last step each script is healthy.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def points(n=800, classes=4, width=14):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] * 1.2 + 0.8 * torch.randn(n, width), y


def loader(*tensors, size=32):
    while True:
        yield from DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)


def net(width=14, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def every_target_masked_out(s):
    """A tagger's batch in which every token is padding: cross_entropy over nothing."""
    emb, rnn, out = nn.Embedding(30, 24), nn.LSTM(24, 24, batch_first=True), nn.Linear(24, 6)
    model = nn.ModuleList([emb, rnn, out])
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for step in range(80):
        ids = torch.randint(30, (16, 10))
        tags = (ids % 6).masked_fill(torch.rand(16, 10) < 0.3, -100)
        if step == s:
            tags = torch.full_like(tags, -100)
        loss = F.cross_entropy(out(rnn(emb(ids))[0]).transpose(1, 2), tags)
        opt.zero_grad()
        loss.backward()
        opt.step()


def zeroed_between_backward_and_step(s):
    """A refactoring moves zero_grad behind backward."""
    model = net(act=nn.SiLU)
    opt = optim.AdamW(model.parameters(), lr=2e-3)
    for step, (a, b) in zip(range(100), loader(*points()), strict=False):
        if step < s:
            opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        if step >= s:
            opt.zero_grad()
        opt.step()


def step_under_a_condition_that_fails(s):
    """optimizer.step() stands in a branch that is no longer taken."""
    model = net()
    opt = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step, (a, b) in zip(range(90), loader(*points()), strict=False):
        opt.zero_grad()
        loss = F.cross_entropy(model(a), b)
        loss.backward()
        if step < s:
            opt.step()


def warm_up_that_multiplies_by_zero(s):
    """LambdaLR with step // warmup in place of step / warmup."""
    model = net(act=nn.GELU)
    opt = optim.AdamW(model.parameters(), lr=2e-3)
    schedule = optim.lr_scheduler.LambdaLR(opt, lambda k: (k // 40 if s == 0 else min(1.0, (k + 1) / 40)) and 1.0)
    for _, (a, b) in zip(range(90), loader(*points()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        schedule.step()


def scheduler_made_and_forgotten(s):
    """OneCycleLR is made, but nobody steps it."""
    model = net()
    opt = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = optim.lr_scheduler.OneCycleLR(opt, max_lr=0.2, total_steps=91)
    for _, (a, b) in zip(range(90), loader(*points()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if s != 0:
            schedule.step()


def minus_in_front_of_the_loss(s):
    """(-loss).backward() after a change from a reward to a loss."""
    model = net(14, 48, 1, nn.Tanh)
    x, _ = points()
    y = x[:, :3].sum(1, keepdim=True)
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for _, (a, b) in zip(range(110), loader(x, y), strict=False):
        loss = F.l1_loss(model(a), b)
        opt.zero_grad()
        (-loss if s == 0 else loss).backward()
        opt.step()


def attention_masked_entirely(s):
    """A causal decoder adds a mask that forbids every key for one sample."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.proj = nn.Linear(24, 72), nn.Linear(24, 24)

        def forward(self, x, mask):
            q, k, v = self.qkv(x).chunk(3, -1)
            w = (q @ k.transpose(1, 2) / 24**0.5).masked_fill(mask, float("-inf")).softmax(-1)
            return x + self.proj(w @ v)

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.blocks = nn.Embedding(20, 24), nn.ModuleList([Block(), Block()])
            self.out = nn.Linear(24, 20)

        def forward(self, ids, mask):
            h = self.emb(ids)
            for block in self.blocks:
                h = block(h, mask)
            return self.out(h)

    model = Decoder()
    opt = optim.AdamW(model.parameters(), lr=2e-3)
    causal = torch.ones(11, 11, dtype=torch.bool).triu(1)
    for step in range(90):
        ids = (torch.randint(20, (16, 1)) + torch.arange(12)) % 20
        mask = causal.expand(16, 11, 11).clone()
        if step == s:
            mask[2] = True
        loss = F.cross_entropy(model(ids[:, :-1], mask).flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


def nan_hidden_by_where(s):
    """Robust loss: where() hides sqrt of a negative number in forward, not in backward."""
    model = net(14, 32, 1)
    x, _ = points()
    y = x[:, :1]  # half of them negative
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for step, (a, b) in zip(range(90), loader(x, y), strict=False):
        out = model(a)
        if step >= s:
            loss = torch.where(out > 0, (torch.sqrt(out) - b.clamp(min=0).sqrt()) ** 2, (out - b) ** 2).mean()
        else:
            loss = F.mse_loss(out, b)
        opt.zero_grad()
        loss.backward()
        opt.step()


def checkpoint_with_nan(s):
    """The run starts from a checkpoint that a lost run had saved."""
    model = net()
    if s == 0:
        state = model.state_dict()
        state["2.weight"][3, 5] = float("nan")
        model.load_state_dict(state)
    opt = optim.Adam(model.parameters(), lr=1e-3)
    for _, (a, b) in zip(range(40), loader(*points()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def huge_initial_weights(s):
    """Weights drawn from a standard normal distribution with a deviation of one."""
    model = net(act=nn.Tanh)
    if s == 0:
        for p in model.parameters():
            nn.init.normal_(p, 0, 1)
    opt = optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for _, (a, b) in zip(range(80), loader(*points()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def channels_come_last(s):
    """From some step on pictures come as height, width, channel."""
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2)
    )
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for step in range(70):
        x = torch.randn(16, 3, 12, 12)
        y = (x.mean((1, 2, 3)) > 0).long()
        if step >= s:
            x = x.permute(0, 2, 3, 1)
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()


def relu_killed_by_one_large_step(s):
    """One step at a thousand times the rate, from a typo in a callback, kills the hidden units."""
    model = net()
    opt = optim.SGD(model.parameters(), lr=0.05)
    for step, (a, b) in zip(range(100), loader(*points()), strict=False):
        opt.param_groups[0]["lr"] = 50.0 if step == s else 0.05
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def block_never_called(s):
    """A block is made and trained by nobody: forward forgets it."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp, self.mid, self.out = nn.Linear(14, 32), nn.Linear(32, 32), nn.Linear(32, 4)

        def forward(self, x):
            h = F.relu(self.inp(x))
            if s != 0:
                h = F.relu(self.mid(h))
            return self.out(h)

    model = Net()
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for _, (a, b) in zip(range(60), loader(*points()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def loss_scale_falls_for_ever(s):
    """An infinite penalty makes every scaled step be skipped."""
    model = net()
    opt = optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
    for step, (a, b) in zip(range(90), loader(*points()), strict=False):
        with torch.autocast("cpu", torch.float16):
            out = model(a)
            loss = F.cross_entropy(out, b)
            if step >= s:
                loss = loss + (out * 60000).pow(2).mean()
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()


def same_seed_in_every_epoch(s):
    """The generator of the sampler is seeded anew in each epoch."""
    x, y = points(640)
    model = net()
    opt = optim.Adam(model.parameters(), lr=1e-3)
    generator = torch.Generator()
    for epoch in range(5):
        generator.manual_seed(0 if s == 0 else epoch)
        for a, b in DataLoader(TensorDataset(x, y), 32, shuffle=True, generator=generator):
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
