"""Healthy runs in many styles: `python odd_styles.py NAME [SEED]`. Nothing is wrong with any of them."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

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


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
