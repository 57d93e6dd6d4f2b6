"""Healthy runs in many styles: `python odd_styles.py NAME [SEED]`. Nothing is wrong with any of them."""

import copy
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4, noise=0.8):
    y = torch.randint(classes, (n,))
    centres = torch.randn(classes, width)
    return centres[y] + noise * torch.randn(n, width), y


def net(width=16, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


class Denoiser(nn.Module):
    def __init__(self, width=2, hidden=64):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, hidden), nn.SiLU(), nn.Linear(hidden, hidden))
        self.enter, self.middle, self.leave = (
            nn.Linear(width, hidden),
            nn.Linear(hidden, hidden),
            nn.Linear(hidden, width),
        )
        nn.init.zeros_(self.leave.weight)
        nn.init.zeros_(self.leave.bias)

    def forward(self, x, t):
        angles = t[:, None].float() * torch.exp(-torch.arange(8) * 0.6)
        h = F.silu(self.enter(x) + self.time(torch.cat([angles.sin(), angles.cos()], 1)))
        return self.leave(F.silu(self.middle(h)) + h)


def diffusion():
    angle = torch.rand(4000) * 6.28
    x = torch.stack([angle.cos(), angle.sin()], 1)
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 200), 0)
    model = Denoiser()
    average = copy.deepcopy(model).requires_grad_(False)
    opt = torch.optim.AdamW(model.parameters(), 2e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(opt, 0.05, 1.0, 20)
    for _ in range(150):
        a = x[torch.randint(4000, (64,))]
        t = torch.randint(200, (64,))
        noise = torch.randn_like(a)
        noisy = kept[t].sqrt()[:, None] * a + (1 - kept[t]).sqrt()[:, None] * noise
        step(opt, F.mse_loss(model(noisy, t), noise), 1.0)
        schedule.step()
        with torch.no_grad():
            for p, q in zip(average.parameters(), model.parameters(), strict=True):
                p.lerp_(q, 0.05)
    with torch.no_grad():
        sample = torch.randn(64, 2)
        for t in reversed(range(0, 200, 20)):
            sample = sample - 0.05 * average(sample, torch.full((64,), t))


def q_learning():
    q = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    target = copy.deepcopy(q)
    opt = torch.optim.Adam(q.parameters(), 1e-3)
    replay, state, explore = [], torch.randn(4) * 0.05, 1.0
    for i in range(400):
        with torch.no_grad():
            action = int(q(state[None]).argmax()) if torch.rand(1) > explore else int(torch.randint(2, (1,)))
        push = (action * 2 - 1) * 0.1
        nxt = state + 0.1 * torch.tensor([float(state[1]), push, float(state[3]), -push]) + 0.02 * torch.randn(4)
        done = bool(nxt[0].abs() > 0.5 or nxt[2].abs() > 0.5)
        replay.append((state, action, 0.0 if done else 1.0, nxt, float(done)))
        replay = replay[-1000:]
        state = torch.randn(4) * 0.05 if done else nxt
        explore = max(0.05, explore * 0.99)
        if len(replay) < 64:
            continue
        picked = [replay[k] for k in torch.randint(len(replay), (32,)).tolist()]
        s, a, r, s2, d = (torch.stack([torch.as_tensor(row[k]) for row in picked]) for k in range(5))
        with torch.no_grad():
            goal = r + 0.99 * (1 - d) * target(s2).max(1).values
        step(opt, F.smooth_l1_loss(q(s).gather(1, a[:, None])[:, 0], goal), 10.0)
        if i % 50 == 0:
            target.load_state_dict(q.state_dict())


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.actor, self.critic = nn.Linear(64, 3), nn.Linear(64, 1)
        nn.init.orthogonal_(self.actor.weight, 0.01)
        nn.init.zeros_(self.actor.bias)

    def forward(self, s):
        h = self.body(s)
        return torch.distributions.Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)


def proximal_policy():
    model = ActorCritic()
    opt = torch.optim.Adam(model.parameters(), 1e-3, eps=1e-5)
    for _ in range(8):
        with torch.no_grad():
            s = torch.randn(128, 6)
            policy, value = model(s)
            action = policy.sample()
            logp = policy.log_prob(action)
        reward = torch.where(action == s[:, :3].argmax(1), 1.0, 0.0)
        advantage = reward - value
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        for _ in range(4):
            for pick in torch.randperm(128).split(32):
                policy, value = model(s[pick])
                ratio = (policy.log_prob(action[pick]) - logp[pick]).exp()
                gain = torch.min(ratio * advantage[pick], ratio.clamp(0.8, 1.2) * advantage[pick]).mean()
                loss = -gain + 0.5 * F.mse_loss(value, reward[pick]) - 0.01 * policy.entropy().mean()
                step(opt, loss, 0.5)


def soft_actor_critic():
    actor, c1, c2 = net(4, 64, 4), net(6, 64, 1), net(6, 64, 1)
    t1, t2 = copy.deepcopy(c1), copy.deepcopy(c2)
    log_alpha = torch.zeros(1, requires_grad=True)
    oa, oc = torch.optim.Adam(actor.parameters(), 3e-4), torch.optim.Adam([*c1.parameters(), *c2.parameters()], 3e-4)
    oe = torch.optim.Adam([log_alpha], 3e-4)

    def act(s):
        mean, log_std = actor(s).chunk(2, 1)
        normal = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp())
        raw = normal.rsample()
        squashed = raw.tanh()
        return squashed, (normal.log_prob(raw) - torch.log(1 - squashed**2 + 1e-6)).sum(1, keepdim=True)

    for _ in range(100):
        s, s2 = torch.randn(64, 4), torch.randn(64, 4)
        a = torch.rand(64, 2) * 2 - 1
        r = -(s[:, :2] - a).pow(2).sum(1, keepdim=True)
        with torch.no_grad():
            a2, logp2 = act(s2)
            both = torch.cat([s2, a2], 1)
            goal = r + 0.99 * (torch.min(t1(both), t2(both)) - log_alpha.exp() * logp2)
        both = torch.cat([s, a], 1)
        step(oc, F.mse_loss(c1(both), goal) + F.mse_loss(c2(both), goal))
        mine, logp = act(s)
        both = torch.cat([s, mine], 1)
        step(oa, (log_alpha.exp().detach() * logp - torch.min(c1(both), c2(both))).mean())
        step(oe, -(log_alpha * (logp.detach() - 2)).mean())
        with torch.no_grad():
            for slow, fast in ((t1, c1), (t2, c2)):
                for p, q in zip(slow.parameters(), fast.parameters(), strict=True):
                    p.mul_(0.995).add_(0.005 * q)


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 24, padding_idx=0)
        self.encoder, self.decoder = nn.GRU(24, 48, batch_first=True), nn.GRUCell(24, 48)
        self.out = nn.Linear(48, 20)

    def forward(self, source, target, teacher):
        _, h = self.encoder(self.embed(source))
        h, token, outs = h[0], torch.ones(len(source), dtype=torch.long), []
        for t in range(target.shape[1]):
            h = self.decoder(self.embed(token), h)
            logits = self.out(h)
            outs.append(logits)
            token = target[:, t] if torch.rand(1) < teacher else logits.argmax(1)
        return torch.stack(outs, 1)


def teacher_forcing():
    model = Translator()
    opt = torch.optim.Adam(model.parameters(), 5e-3)
    for i in range(80):
        source = torch.randint(2, 20, (24, 6))
        lengths = torch.randint(3, 7, (24,))
        source = source * (torch.arange(6) < lengths[:, None])
        logits = model(source, source.flip(1), max(0.2, 1 - i / 60))
        step(opt, F.cross_entropy(logits.flatten(0, 1), source.flip(1).flatten(), ignore_index=0), 1.0)


def triplets():
    x, y = blobs(600)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 8))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(120):
        k = torch.randint(600, (32,))
        same = torch.stack([torch.nonzero(y == y[i])[torch.randint(int((y == y[i]).sum()), (1,))][0, 0] for i in k])
        other = torch.stack([torch.nonzero(y != y[i])[torch.randint(int((y != y[i]).sum()), (1,))][0, 0] for i in k])
        step(opt, F.triplet_margin_loss(model(x[k]), model(x[same]), model(x[other]), margin=0.5))


def siamese_pairs():
    x, y = blobs(600)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for _ in range(100):
        i, j = torch.randint(600, (32,)), torch.randint(600, (32,))
        distance = F.pairwise_distance(model(x[i]), model(x[j]))
        same = (y[i] == y[j]).float()
        step(opt, (same * distance**2 + (1 - same) * F.relu(1 - distance) ** 2).mean())


class Experts(nn.Module):
    def __init__(self, width=16, count=4):
        super().__init__()
        self.gate = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width)) for _ in range(count)
        )
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        weights, which = self.gate(x).softmax(-1).topk(2)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            rows, slot = torch.where(which == e)
            if len(rows):
                out = out.index_add(0, rows, expert(x[rows]) * weights[rows, slot, None])
        balance = self.gate(x).softmax(-1).mean(0).pow(2).sum() * len(self.experts)
        return self.head(x + out), balance


def routed_experts():
    x, y = blobs(960)
    model = Experts()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for i in range(80):
        s = slice(i * 12 % 960, i * 12 % 960 + 12)
        logits, balance = model(x[s])
        step(opt, F.cross_entropy(logits, y[s]) + 0.01 * balance)


def knowledge_distillation():
    x, y = blobs(800)
    teacher, student = net(hidden=96), net(hidden=12)
    opt = torch.optim.Adam(teacher.parameters(), 3e-3)
    for i in range(60):
        s = slice(i * 32 % 800, i * 32 % 800 + 32)
        step(opt, F.cross_entropy(teacher(x[s]), y[s]))
    teacher.eval().requires_grad_(False)
    opt = torch.optim.Adam(student.parameters(), 3e-3)
    for i in range(80):
        s = slice(i * 32 % 800, i * 32 % 800 + 32)
        with torch.no_grad():
            soft = F.softmax(teacher(x[s]) / 4, 1)
        logits = student(x[s])
        loss = 16 * F.kl_div(F.log_softmax(logits / 4, 1), soft, reduction="batchmean") + F.cross_entropy(logits, y[s])
        step(opt, loss)


def meta_learning():
    model = nn.Sequential(nn.Linear(1, 40), nn.Tanh(), nn.Linear(40, 1))
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    names = [n for n, _ in model.named_parameters()]
    for _ in range(60):
        opt.zero_grad()
        total = 0.0
        for _ in range(4):
            amplitude, phase = torch.rand(1) * 4 + 0.5, torch.rand(1) * 3
            x, q = torch.rand(10, 1) * 10 - 5, torch.rand(10, 1) * 10 - 5
            fast = dict(model.named_parameters())
            for _ in range(2):
                inner = F.mse_loss(torch.func.functional_call(model, fast, (x,)), amplitude * torch.sin(x + phase))
                grads = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
                fast = {n: p - 0.02 * g for n, p, g in zip(names, fast.values(), grads, strict=True)}
            total = total + F.mse_loss(torch.func.functional_call(model, fast, (q,)), amplitude * torch.sin(q + phase))
        (total / 4).backward()
        opt.step()


class GraphLayer(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.own, self.neighbours = nn.Linear(i, o), nn.Linear(i, o, bias=False)

    def forward(self, x, edges):
        messages = self.neighbours(x)[edges[0]]
        degree = torch.zeros(len(x)).index_add(0, edges[1], torch.ones(edges.shape[1])).clamp(min=1)
        return self.own(x) + torch.zeros(len(x), messages.shape[1]).index_add(0, edges[1], messages) / degree[:, None]


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GraphLayer(8, 32), GraphLayer(32, 3)

    def forward(self, x, edges):
        return self.second(F.dropout(F.relu(self.first(x, edges)), 0.5, self.training), edges)


def graph_nodes():
    y = torch.randint(3, (200,))
    x = F.one_hot(y, 8).float() + torch.randn(200, 8)
    edges = torch.randint(200, (2, 1500))
    edges = edges[:, (y[edges[0]] == y[edges[1]]) | (torch.rand(1500) < 0.2)]
    train = torch.rand(200) < 0.3
    model = GraphNet()
    opt = torch.optim.Adam(model.parameters(), 1e-2, weight_decay=5e-4)
    for _ in range(100):
        model.train()
        step(opt, F.cross_entropy(model(x, edges)[train], y[train]))
        model.eval()
        with torch.no_grad():
            (model(x, edges)[~train].argmax(1) == y[~train]).float().mean().item()


def quantiles():
    x = torch.rand(1200, 1) * 4
    y = x.sin() + torch.randn(1200, 1) * (0.1 + 0.3 * x)
    model = net(1, 32, 3, nn.Tanh)
    levels = torch.tensor([0.1, 0.5, 0.9])
    opt = torch.optim.RMSprop(model.parameters(), 1e-3)
    for i in range(120):
        s = slice(i * 24 % 1200, i * 24 % 1200 + 24)
        error = y[s] - model(x[s])
        step(opt, torch.max(levels * error, (levels - 1) * error).mean())


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 64), nn.ReLU())
        self.classes, self.value, self.flag = nn.Linear(64, 4), nn.Linear(64, 1), nn.Linear(64, 1)
        self.log_variance = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        h = self.body(x)
        return self.classes(h), self.value(h).squeeze(1), self.flag(h).squeeze(1)


def several_tasks():
    x, y = blobs(800)
    model = Heads()
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for i in range(100):
        s = slice(i * 16 % 800, i * 16 % 800 + 16)
        classes, value, flag = model(x[s])
        losses = torch.stack(
            [
                F.cross_entropy(classes, y[s]),
                F.mse_loss(value, x[s, 0] * 3),
                F.binary_cross_entropy_with_logits(flag, (x[s, 1] > 0).float()),
            ]
        )
        step(opt, (losses * torch.exp(-model.log_variance) + model.log_variance).sum())


def tasks_in_turn():
    x, y = blobs(800)
    model = Heads()
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for i in range(90):
        s = slice(i * 16 % 800, i * 16 % 800 + 16)
        classes, value, flag = model(x[s])
        if i % 3 == 0:
            loss = F.cross_entropy(classes, y[s])
        elif i % 3 == 1:
            loss = F.mse_loss(value, x[s, 0] * 3)
        else:
            loss = F.binary_cross_entropy_with_logits(flag, (x[s, 1] > 0).float())
        step(opt, loss)


def two_backwards_of_one_body():
    x, y = blobs(800)
    model = Heads()
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for i in range(60):
        s = slice(i * 12 % 800, i * 12 % 800 + 12)
        classes, value, _ = model(x[s])
        opt.zero_grad()
        F.cross_entropy(classes, y[s]).backward(retain_graph=True)
        F.mse_loss(value, x[s, 0]).backward()
        opt.step()


def longer_and_longer_sequences():
    embed, rnn, head = nn.Embedding(12, 16), nn.GRU(16, 32, batch_first=True), nn.Linear(32, 12)
    opt = torch.optim.Adam([*embed.parameters(), *rnn.parameters(), *head.parameters()], 5e-3)
    for length, lr, steps in ((4, 5e-3, 30), (8, 2e-3, 30), (16, 1e-3, 30)):
        for group in opt.param_groups:
            group["lr"] = lr
        for _ in range(steps):
            ids = torch.randint(12, (16, length))
            step(opt, F.cross_entropy(head(rnn(embed(ids))[0]).flatten(0, 1), ids.roll(1, 1).flatten()))


def averaged_weights():
    x, y = blobs(480)
    model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
    average = torch.optim.swa_utils.AveragedModel(model)
    opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    usual = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 6)
    flat = torch.optim.swa_utils.SWALR(opt, 0.05, anneal_epochs=2)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    for epoch in range(10):
        for a, b in loader:
            step(opt, F.cross_entropy(model(a), b))
        if epoch >= 5:
            average.update_parameters(model)
            flat.step()
        else:
            usual.step()
    torch.optim.swa_utils.update_bn(loader, average)
    with torch.no_grad():
        average.eval()
        average(x)


def unfreezes_layer_by_layer():
    x, y = blobs(800)
    model = nn.Sequential(
        *[nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU()) for _ in range(4)], nn.Linear(16, 4)
    )
    model.requires_grad_(False)
    opt = None
    for i in range(100):
        if i % 20 == 0:
            model[4 - i // 20].requires_grad_(True)
            opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 2e-3)
        s = slice(i * 8 % 800, i * 8 % 800 + 16)
        step(opt, F.cross_entropy(model(x[s]), y[s]))


def smoothed_labels():
    x, y = blobs(640)
    model = net()
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, nesterov=True, weight_decay=5e-4)
    for _ in range(5):
        for a, b in DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True):
            step(opt, loss_fn(model(a), b))


def mixed_up():
    x = torch.randn(512, 3, 8, 8)
    y = (x.mean((1, 2, 3)) > 0).long() + 2 * (x[:, 0].mean((1, 2)) > 0).long()
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 4),
    )
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for i in range(80):
        s = slice(i * 16 % 512, i * 16 % 512 + 16)
        lam, order = torch.distributions.Beta(0.4, 0.4).sample(), torch.randperm(16)
        out = model(lam * x[s] + (1 - lam) * x[s][order])
        step(opt, lam * F.cross_entropy(out, y[s]) + (1 - lam) * F.cross_entropy(out, y[s][order]))


class Recomputed(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 32)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(32, 4, 64, 0.1, batch_first=True, norm_first=True) for _ in range(3)
        )
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 40, bias=False)
        self.head.weight = self.embed.weight
        nn.init.normal_(self.embed.weight, std=0.02)

    def forward(self, ids):
        x = self.embed(ids)
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        for block in self.blocks:
            x = checkpoint(block, x, mask, use_reentrant=False)
        return self.head(self.norm(x))


def recomputed_transformer_in_bfloat16():
    model = Recomputed()
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    opt = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], 3e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda i: min((i + 1) / 10, 0.5 + 0.5 * math.cos(math.pi * min(i, 60) / 60))
    )
    for _ in range(60):
        start = torch.randint(40, (8, 1))
        ids = (start + torch.arange(17) * 3) % 40
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        step(opt, loss, 1.0)
        schedule.step()


def sparse_rows():
    users, items = nn.Embedding(500, 8, sparse=True), nn.Embedding(800, 8, sparse=True)
    opt = torch.optim.SparseAdam([*users.parameters(), *items.parameters()], 1e-2)
    for _ in range(100):
        u, i = torch.randint(500, (64,)), torch.randint(800, (64,))
        rating = ((u + i) % 5).float()
        step(opt, F.mse_loss((users(u) * items(i)).sum(1), rating / 5))


def truncated_backpropagation():
    text = torch.tensor(list((__doc__ * 40).encode())) % 64
    streams = text[: len(text) // 8 * 8].view(8, -1)
    embed, rnn, head = nn.Embedding(64, 24), nn.LSTM(24, 48, 2, batch_first=True, dropout=0.1), nn.Linear(48, 64)
    params = [*embed.parameters(), *rnn.parameters(), *head.parameters()]
    opt = torch.optim.SGD(params, 2.0)
    state = None
    for k in range(0, streams.shape[1] - 13, 12):
        out, state = rnn(embed(streams[:, k : k + 12]), state)
        state = tuple(s.detach() for s in state)
        step(opt, F.cross_entropy(head(out).flatten(0, 1), streams[:, k + 1 : k + 13].flatten()), 0.25)


def folds():
    x, y = blobs(400)
    for part in torch.arange(400).split(80):
        rest = torch.ones(400, dtype=torch.bool)
        rest[part] = False
        model = net()
        opt = torch.optim.Adam(model.parameters(), 3e-3)
        for _ in range(3):
            model.train()
            for a, b in DataLoader(TensorDataset(x[rest], y[rest]), batch_size=32, shuffle=True):
                step(opt, F.cross_entropy(model(a), b))
            model.eval()
            with torch.no_grad():
                F.cross_entropy(model(x[part]), y[part]).item()


def sweep(lr, hidden, x, y):
    model = net(hidden=hidden)
    opt = torch.optim.SGD(model.parameters(), lr, momentum=0.9)
    for i in range(25):
        s = slice(i * 16, i * 16 + 16)
        last = step(opt, F.cross_entropy(model(x[s]), y[s]))
    return last


def sweeps_in_one_process():
    x, y = blobs(640)
    for lr in (0.001, 0.01, 0.1):
        for hidden in (16, 64):
            sweep(lr, hidden, x, y)


def pretrains_then_finetunes():
    x, y = blobs(800)
    encoder, decoder = nn.Sequential(nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 8)), nn.Linear(8, 16)
    opt = torch.optim.AdamW([*encoder.parameters(), *decoder.parameters()], 3e-3)
    for i in range(60):
        a = x[i * 12 % 800 : i * 12 % 800 + 16]
        kept = (torch.rand_like(a) > 0.3).float()
        step(opt, F.mse_loss(decoder(encoder(a * kept)), a))
    head = nn.Linear(8, 4)
    opt = torch.optim.AdamW([{"params": head.parameters(), "lr": 1e-2}, {"params": encoder.parameters(), "lr": 1e-4}])
    model = nn.Sequential(encoder, head)
    for i in range(60):
        s = slice(i * 12 % 800, i * 12 % 800 + 16)
        step(opt, F.cross_entropy(model(x[s]), y[s]))


def cycle_of_generators():
    g, h = net(2, 32, 2), net(2, 32, 2)
    da, db = net(2, 32, 1, nn.LeakyReLU), net(2, 32, 1, nn.LeakyReLU)
    og = torch.optim.Adam([*g.parameters(), *h.parameters()], 5e-4, betas=(0.5, 0.999))
    od = torch.optim.Adam([*da.parameters(), *db.parameters()], 5e-4, betas=(0.5, 0.999))
    for _ in range(80):
        a, b = torch.randn(32, 2) + 2, torch.randn(32, 2) * 0.5 - 1
        fake_b, fake_a = g(a), h(b)
        for d in (da, db):
            d.requires_grad_(False)
        loss = (da(fake_a) - 1).pow(2).mean() + (db(fake_b) - 1).pow(2).mean()
        step(og, loss + 5 * (F.l1_loss(h(fake_b), a) + F.l1_loss(g(fake_a), b)))
        for d in (da, db):
            d.requires_grad_(True)
        loss = (da(a) - 1).pow(2).mean() + da(fake_a.detach()).pow(2).mean()
        step(od, loss + (db(b) - 1).pow(2).mean() + db(fake_b.detach()).pow(2).mean())


def bootstrap_your_own():
    x, _ = blobs(640)
    online = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16))
    predictor = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16))
    target = copy.deepcopy(online).requires_grad_(False)
    opt = torch.optim.SGD([*online.parameters(), *predictor.parameters()], 0.05, momentum=0.9, weight_decay=1e-4)
    for i in range(80):
        a = x[i * 8 % 600 : i * 8 % 600 + 32]
        one, two = a + 0.3 * torch.randn_like(a), a + 0.3 * torch.randn_like(a)
        with torch.no_grad():
            goal = target(two)
        step(opt, 2 - 2 * F.cosine_similarity(predictor(online(one)), goal).mean())
        with torch.no_grad():
            for p, q in zip(target.parameters(), online.parameters(), strict=True):
                p.lerp_(q, 0.02)


class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, x):
        a, b = (x[:, 1:], x[:, :1]) if self.flip else (x[:, :1], x[:, 1:])
        scale, shift = self.net(a).chunk(2, 1)
        b = b * scale.tanh().exp() + shift
        return torch.cat([b, a] if self.flip else [a, b], 1), scale.tanh().sum(1)


def normalising_flow():
    angle = torch.rand(2000) * 3.14
    x = torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(2000, 2)
    flow = nn.ModuleList(Coupling(bool(k % 2)) for k in range(4))
    opt = torch.optim.Adam(flow.parameters(), 3e-3)
    for _ in range(100):
        z, logdet = x[torch.randint(2000, (64,))], 0.0
        for layer in flow:
            z, d = layer(z)
            logdet = logdet + d
        step(opt, (0.5 * z.pow(2).sum(1) + math.log(2 * math.pi) - logdet).mean())


def physics_informed():
    model = net(1, 32, 1, nn.Tanh)
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(120):
        t = (torch.rand(64, 1) * 2).requires_grad_()
        u = model(t)
        (du,) = torch.autograd.grad(u.sum(), t, create_graph=True)
        (ddu,) = torch.autograd.grad(du.sum(), t, create_graph=True)
        start = torch.zeros(1, 1, requires_grad=True)
        v = model(start)
        (dv,) = torch.autograd.grad(v.sum(), start, create_graph=True)
        step(opt, (ddu + 4 * u).pow(2).mean() + (v - 1).pow(2).mean() + dv.pow(2).mean())


def style_image():
    fixed = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1)).requires_grad_(False)
    goal = fixed(torch.rand(1, 3, 16, 16))
    image = torch.rand(1, 3, 16, 16, requires_grad=True)
    opt = torch.optim.Adam([image], 0.02)
    for _ in range(80):
        step(opt, F.mse_loss(fixed(image), goal))


def low_rank_adapters():
    class Adapter(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.a = nn.Parameter(torch.randn(4, base.in_features) * 0.02)
            self.b = nn.Parameter(torch.zeros(base.out_features, 4))

        def forward(self, x):
            return self.base(x) + x @ self.a.T @ self.b.T

    x, y = blobs(800)
    model = net()
    for i in (0, 2):
        model[i] = Adapter(model[i])
    model[4].requires_grad_(False)
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-2)
    for i in range(80):
        s = slice(i * 16 % 800, i * 16 % 800 + 16)
        step(opt, F.cross_entropy(model(x[s]), y[s]))


def early_stopping_restores_best():
    x, y = blobs(240, noise=2.0)
    model = net(hidden=64)
    opt = torch.optim.Adam(model.parameters(), 5e-3)
    best, kept, waited = math.inf, None, 0
    for _ in range(40):
        model.train()
        for a, b in DataLoader(TensorDataset(x[:160], y[:160]), batch_size=20, shuffle=True):
            step(opt, F.cross_entropy(model(a), b))
        model.eval()
        with torch.no_grad():
            value = F.cross_entropy(model(x[160:]), y[160:]).item()
        if value < best:
            best, kept, waited = value, copy.deepcopy(model.state_dict()), 0
        else:
            waited += 1
        if waited == 4:
            break
    model.load_state_dict(kept)


def plateau_schedule():
    x = torch.randn(640, 6)
    y = x @ torch.randn(6, 1) + torch.randn(640, 1)
    model = net(6, 32, 1)
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=1, factor=0.3)
    for _ in range(10):
        total = 0.0
        for a, b in DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True):
            total += step(opt, F.mse_loss(model(a), b))
        schedule.step(total)


def energy_with_langevin_samples():
    energy = net(2, 64, 1, nn.SiLU)
    opt = torch.optim.Adam(energy.parameters(), 1e-3, betas=(0.0, 0.999))
    held = torch.rand(256, 2) * 4 - 2
    for _ in range(60):
        real = torch.randn(32, 2) * 0.3 + torch.sign(torch.randn(32, 1))
        pick = torch.randint(256, (32,))
        fake = held[pick].clone()
        energy.requires_grad_(False)
        for _ in range(5):
            fake.requires_grad_()
            (slope,) = torch.autograd.grad(energy(fake).sum(), fake)
            fake = (fake - 0.1 * slope + 0.05 * torch.randn_like(fake)).detach()
        energy.requires_grad_(True)
        held[pick] = fake
        up, down = energy(real), energy(fake)
        step(opt, up.mean() - down.mean() + 0.1 * (up**2 + down**2).mean(), 0.1)


def several_seeds_as_one_batch():
    models = [nn.Linear(6, 1) for _ in range(5)]
    params, buffers = torch.func.stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")
    x = torch.randn(640, 6)
    y = x.sum(1, keepdim=True)
    opt = torch.optim.SGD(list(params.values()), 0.05)

    def one(p, b, a):
        return torch.func.functional_call(base, (p, b), (a,))

    for i in range(40):
        s = slice(i * 16, i * 16 + 16)
        out = torch.vmap(one, (0, 0, None))(params, buffers, x[s])
        step(opt, (out - y[s]).pow(2).mean((1, 2)).sum())


def spectral_norms():
    real = torch.randn(1200, 2) * 0.2 + 1
    d = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(2, 32)),
        nn.LeakyReLU(0.2),
        nn.utils.parametrizations.spectral_norm(nn.Linear(32, 1)),
    )
    g = net(4, 32, 2)
    og, od = torch.optim.Adam(g.parameters(), 1e-3, (0.0, 0.9)), torch.optim.Adam(d.parameters(), 2e-3, (0.0, 0.9))
    for i in range(60):
        a = real[i * 20 : i * 20 + 20]
        for _ in range(2):
            step(od, F.relu(1 - d(a)).mean() + F.relu(1 + d(g(torch.randn(20, 4)).detach())).mean())
        step(og, -d(g(torch.randn(20, 4))).mean())


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(), nn.MaxPool2d(2))
        self.middle = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.out = nn.Conv2d(9, 1, 1)

    def forward(self, x):
        return self.out(torch.cat([self.up(self.middle(self.down(x))), x], 1))


def rare_foreground():
    model = Segmenter()
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(60):
        mask = torch.zeros(8, 1, 16, 16)
        for k in range(8):
            i, j = torch.randint(13, (2,)).tolist()
            mask[k, 0, i : i + 3, j : j + 3] = 1
        logits = model(mask + 0.5 * torch.randn_like(mask))
        chance = logits.sigmoid()
        dice = 1 - (2 * (chance * mask).sum() + 1) / (chance.sum() + mask.sum() + 1)
        step(opt, dice + F.binary_cross_entropy_with_logits(logits, mask))


def speech_alignment():
    model = nn.ModuleDict({"rnn": nn.GRU(8, 32, batch_first=True, bidirectional=True), "out": nn.Linear(64, 6)})
    opt = torch.optim.Adam(model.parameters(), 5e-3)
    patterns = torch.randn(6, 8)
    for _ in range(60):
        labels = torch.randint(1, 6, (8, 4))
        x = patterns[labels].repeat_interleave(4, 1) + 0.3 * torch.randn(8, 16, 8)
        logp = F.log_softmax(model["out"](model["rnn"](x)[0]), -1).transpose(0, 1)
        step(opt, F.ctc_loss(logp, labels, torch.full((8,), 16), torch.full((8,), 4)), 5.0)


def vector_quantised():
    x, _ = blobs(640)
    encoder, decoder, codes = net(16, 32, 4), net(4, 32, 16), nn.Embedding(16, 4)
    nn.init.uniform_(codes.weight, -1, 1)
    opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), *codes.parameters()], 2e-3)
    for i in range(100):
        a = x[i * 8 % 600 : i * 8 % 600 + 32]
        z = encoder(a)
        q = codes(torch.cdist(z.detach(), codes.weight.detach()).argmin(1))
        out = decoder(z + (q - z).detach())
        step(opt, F.mse_loss(out, a) + F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach()))


def double_precision_fit():
    x = torch.linspace(-1, 1, 200, dtype=torch.float64)[:, None]
    y = torch.sin(3 * x)
    model = net(1, 24, 1, nn.Tanh).double()
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(120):
        step(opt, F.mse_loss(model(x), y))


def reversed_gradients():
    class Reverse(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return -g

    x, y = blobs(800)
    domain = (torch.rand(800) > 0.5).float()
    features, label, judge = net(16, 32, 16), nn.Linear(16, 4), nn.Linear(16, 1)
    opt = torch.optim.Adam([*features.parameters(), *label.parameters(), *judge.parameters()], 1e-3)
    for i in range(80):
        s = slice(i * 10 % 800, i * 10 % 800 + 20)
        h = features(x[s])
        guess = judge(Reverse.apply(h)).squeeze(1)
        step(opt, F.cross_entropy(label(h), y[s]) + 0.3 * F.binary_cross_entropy_with_logits(guess, domain[s]))


def sharpness_aware():
    x, y = blobs(640)
    model = net()
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for i in range(60):
        s = slice(i * 10, i * 10 + 20)
        opt.zero_grad()
        F.cross_entropy(model(x[s]), y[s]).backward()
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        moved = [0.05 * p.grad / (norm + 1e-12) for p in model.parameters()]
        with torch.no_grad():
            for p, e in zip(model.parameters(), moved, strict=True):
                p.add_(e)
        opt.zero_grad()
        F.cross_entropy(model(x[s]), y[s]).backward()
        with torch.no_grad():
            for p, e in zip(model.parameters(), moved, strict=True):
                p.sub_(e)
        opt.step()


def accumulates_unevenly():
    ids = torch.randint(1, 30, (900, 10))
    ids = ids * (torch.arange(10) < torch.randint(3, 11, (900, 1)))
    model = nn.ModuleDict(
        {"e": nn.Embedding(30, 24, padding_idx=0), "r": nn.GRU(24, 32, batch_first=True), "o": nn.Linear(32, 30)}
    )
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for i in range(0, 50 * 16, 16):
        parts = ids[i : i + 16].split(4)
        tokens = sum((p[:, 1:] > 0).sum() for p in parts)
        opt.zero_grad()
        for part in parts:
            logits = model["o"](model["r"](model["e"](part[:, :-1]))[0])
            loss = F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten(), ignore_index=0, reduction="sum")
            (loss / tokens).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()


def trains_on_what_it_made():
    model = nn.ModuleDict({"e": nn.Embedding(20, 16), "r": nn.GRU(16, 32, batch_first=True), "o": nn.Linear(32, 20)})
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for i in range(60):
        ids = (torch.randint(20, (16, 1)) + torch.arange(8)) % 20
        loss = F.cross_entropy(model["o"](model["r"](model["e"](ids[:, :-1]))[0]).flatten(0, 1), ids[:, 1:].flatten())
        step(opt, loss)
        if i % 10 == 9:
            model.eval()
            with torch.inference_mode():
                token, state = torch.zeros(1, 1, dtype=torch.long), None
                for _ in range(12):
                    out, state = model["r"](model["e"](token), state)
                    token = torch.multinomial(model["o"](out[:, -1]).softmax(-1), 1)
            model.train()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
