"""Healthy runs that look odd, by an opponent, fifth round: `python odd_opponent_fifth.py NAME [SEED]`."""

import copy
import math
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

torch.set_num_threads(1)


def kinds(n=720, classes=4, width=16, noise=0.8):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + noise * torch.randn(n, width), y


def stream(*tensors, size=32):
    while True:
        yield from DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)


def mlp(width=16, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def learn(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def hard_task_learnt_slowly():
    """Parity of four bits: the loss stays near ln 2 for long before it falls, if it does."""
    x = torch.randint(2, (1024, 12)).float() * 2 - 1
    y = (x[:, :4].prod(1) > 0).long()
    model = mlp(12, 64, 2)
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for _, (a, b) in zip(range(200), stream(x, y), strict=False):
        learn(opt, F.cross_entropy(model(a), b))


def a_third_of_the_labels_is_noise():
    """A third of the labels are noise; the loss falls a little and stays high."""
    x, y = kinds(960)
    wrong = torch.rand(960) < 0.35
    y[wrong] = torch.randint(4, (int(wrong.sum()),))
    model = mlp()
    opt = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _, (a, b) in zip(range(150), stream(x, y), strict=False):
        learn(opt, F.cross_entropy(model(a), b))


def fine_tunes_head_then_everything():
    """The body is frozen at first and joins the optimizer with a lower rate later."""
    x, y = kinds()
    body, head = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 32), nn.ReLU()), nn.Linear(32, 4)
    body.requires_grad_(False)
    opt = optim.AdamW(head.parameters(), lr=3e-3)
    for step, (a, b) in zip(range(120), stream(x, y), strict=False):
        if step == 60:
            body.requires_grad_(True)
            opt.add_param_group({"params": body.parameters(), "lr": 3e-4})
        learn(opt, F.cross_entropy(head(body(a)), b))


def two_time_scale_gan():
    """A Wasserstein GAN with clipped critic: five critic steps for one of the generator."""
    real = lambda n: torch.randn(n, 2) * 0.3 + torch.randint(2, (n, 1)) * 2  # noqa: E731
    gen, critic = mlp(4, 32, 2), mlp(2, 32, 1, lambda: nn.LeakyReLU(0.2))
    opt_g, opt_c = optim.RMSprop(gen.parameters(), 5e-4), optim.RMSprop(critic.parameters(), 5e-4)
    for step in range(150):
        fake = gen(torch.randn(32, 4))
        if step % 6 == 5:
            learn(opt_g, -critic(fake).mean())
            continue
        learn(opt_c, critic(fake.detach()).mean() - critic(real(32)).mean())
        with torch.no_grad():
            for p in critic.parameters():
                p.clamp_(-0.05, 0.05)


def clipped_policy_of_a_bandit():
    """PPO on a bandit with states: four epochs over each rollout, ratio clipped, entropy bonus."""
    actor, critic = mlp(6, 32, 3, nn.Tanh), mlp(6, 32, 1, nn.Tanh)
    opt = optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-3)
    w = torch.randn(6, 3)
    for _ in range(12):
        state = torch.randn(128, 6)
        with torch.no_grad():
            dist = torch.distributions.Categorical(logits=actor(state))
            action = dist.sample()
            old = dist.log_prob(action)
            reward = (action == (state @ w).argmax(1)).float()
            advantage = reward - critic(state).squeeze(1)
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        for _ in range(4):
            for i in torch.randperm(128).split(32):
                dist = torch.distributions.Categorical(logits=actor(state[i]))
                ratio = (dist.log_prob(action[i]) - old[i]).exp()
                gain = torch.min(ratio * advantage[i], ratio.clamp(0.8, 1.2) * advantage[i]).mean()
                value = F.mse_loss(critic(state[i]).squeeze(1), reward[i])
                opt.zero_grad()
                (0.5 * value - gain - 0.01 * dist.entropy().mean()).backward()
                nn.utils.clip_grad_norm_(actor.parameters(), 0.5)
                opt.step()


def cyclic_rate():
    """A triangular schedule, whose loss goes up and down with it."""
    model = mlp()
    opt = optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    schedule = optim.lr_scheduler.CyclicLR(opt, 0.005, 0.3, step_size_up=15)
    for _, (a, b) in zip(range(150), stream(*kinds()), strict=False):
        learn(opt, F.cross_entropy(model(a), b))
        schedule.step()


def warm_restarts_and_a_tail_of_zero():
    """Cosine to exactly zero with two restarts."""
    model = mlp(act=nn.GELU)
    opt = optim.AdamW(model.parameters(), lr=3e-3)
    schedule = optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 40)
    for _, (a, b) in zip(range(120), stream(*kinds()), strict=False):
        learn(opt, F.cross_entropy(model(a), b))
        schedule.step()


def heavy_tailed_regression():
    """Targets with heavy tails: single batches have losses of ten times the median."""
    x = torch.randn(1500, 8)
    y = x @ torch.randn(8) + torch.distributions.StudentT(2.0).sample((1500,))
    model = mlp(8, 32, 1)
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for _, (a, b) in zip(range(140), stream(x, y), strict=False):
        learn(opt, F.mse_loss(model(a).squeeze(1), b))


def bags_of_different_size():
    """Multiple-instance learning: one bag of 3 to 40 rows a step, so the batch is one."""
    enc, att, head = nn.Linear(8, 24), nn.Linear(24, 1), nn.Linear(24, 2)
    opt = optim.Adam([*enc.parameters(), *att.parameters(), *head.parameters()], lr=3e-3)
    for _ in range(150):
        bag = torch.randn(int(torch.randint(3, 40, ())), 8)
        y = torch.randint(2, (1,))
        if y:
            bag[0] += 3
        h = enc(bag).tanh()
        learn(opt, F.cross_entropy(head((att(h).softmax(0) * h).sum(0, keepdim=True)), y))


def masked_language_model():
    """Fifteen percent of the tokens have a target, the rest are ignored."""
    emb, pos = nn.Embedding(30, 32), nn.Parameter(torch.randn(20, 32) * 0.02)
    layer = nn.TransformerEncoderLayer(32, 4, 64, 0.1, batch_first=True)
    enc, out = nn.TransformerEncoder(layer, 1), nn.Linear(32, 30)
    opt = optim.AdamW([*emb.parameters(), pos, *enc.parameters(), *out.parameters()], lr=2e-3)
    start = torch.randint(2, 30, (600, 1))
    rows = (start + torch.arange(20)) % 28 + 2
    for _, (a,) in zip(range(120), stream(rows), strict=False):
        hide = torch.rand(a.shape) < 0.15
        target = a.masked_fill(~hide, -100)
        logits = out(enc(emb(a.masked_fill(hide, 1)) + pos))
        learn(opt, F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=-100))


def oversampled_rare_class():
    """A rare class is drawn with weights, so its few rows come again and again."""
    x, y = kinds(900, 2)
    keep = (y == 0) | (torch.rand(900) < 0.06)
    x, y = x[keep], y[keep]
    weight = 1.0 / torch.bincount(y).float()[y]
    model = mlp(out=2)
    opt = optim.Adam(model.parameters(), lr=1e-3)
    sampler = WeightedRandomSampler(weight, 40 * 32)
    for _ in range(3):
        for a, b in DataLoader(TensorDataset(x, y), 32, sampler=sampler):
            learn(opt, F.cross_entropy(model(a), b))


def gradient_penalty():
    """A penalty on the gradient of the output with respect to the input: backward within forward."""
    model = mlp(act=nn.Softplus)
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for _, (a, b) in zip(range(100), stream(*kinds()), strict=False):
        a = a.requires_grad_()
        out = model(a)
        (g,) = torch.autograd.grad(out.logsumexp(1).sum(), a, create_graph=True)
        learn(opt, F.cross_entropy(out, b) + 0.05 * g.square().sum(1).mean())


def resumes_properly():
    """Everything is saved and loaded, by way of a file, in the middle of the run."""
    model = mlp()
    opt = optim.AdamW(model.parameters(), lr=3e-3)
    schedule = optim.lr_scheduler.OneCycleLR(opt, 3e-3, total_steps=121)
    with tempfile.TemporaryDirectory() as folder:
        for step, (a, b) in zip(range(120), stream(*kinds()), strict=False):
            if step == 55:
                state = {"m": model.state_dict(), "o": opt.state_dict(), "s": schedule.state_dict()}
                torch.save(state, f"{folder}/c.pt")
                state = torch.load(f"{folder}/c.pt")
                model = mlp()
                model.load_state_dict(state["m"])
                opt = optim.AdamW(model.parameters(), lr=3e-3)
                schedule = optim.lr_scheduler.OneCycleLR(opt, 3e-3, total_steps=121)
                opt.load_state_dict(state["o"])
                schedule.load_state_dict(state["s"])
            learn(opt, F.cross_entropy(model(a), b))
            schedule.step()


def bfloat16_autocast():
    """Mixed precision as on CPUs: autocast to bfloat16, weights in float32, no scaler."""
    model = nn.Sequential(nn.Linear(16, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 4))
    opt = optim.AdamW(model.parameters(), lr=2e-3)
    for _, (a, b) in zip(range(120), stream(*kinds()), strict=False):
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(a), b)
        learn(opt, loss)


def evidence_lower_bound():
    """A VAE on continuous data with a learnt variance: the loss goes below zero."""
    enc, dec = mlp(16, 48, 8), mlp(4, 48, 16)
    log_scale = nn.Parameter(torch.zeros(()))
    opt = optim.Adam([*enc.parameters(), *dec.parameters(), log_scale], lr=3e-3)
    x, _ = kinds(noise=0.05)
    for _, (a,) in zip(range(200), stream(x), strict=False):
        mu, logvar = enc(a).chunk(2, 1)
        out = dec(mu + torch.randn_like(mu) * (logvar / 2).exp())
        fit = (((a - out) / log_scale.exp()) ** 2 / 2 + log_scale).sum(1).mean()
        learn(opt, fit - 0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1).mean())


def ternary_codes():
    """Weights are rounded in forward with a straight-through gradient."""
    w1, w2 = nn.Parameter(torch.randn(16, 48) * 0.3), nn.Parameter(torch.randn(48, 4) * 0.2)
    opt = optim.Adam([w1, w2], lr=3e-3)

    def rounded(w):
        return w + ((w / w.abs().mean()).round().clamp(-1, 1) * w.abs().mean() - w).detach()

    for _, (a, b) in zip(range(120), stream(*kinds()), strict=False):
        learn(opt, F.cross_entropy(F.relu(a @ rounded(w1)) @ rounded(w2), b))


def momentum_teacher():
    """Contrastive learning with a slow key encoder and a queue of old keys."""
    query, (x, _) = mlp(16, 48, 16), kinds()
    key = copy.deepcopy(query).requires_grad_(False)
    queue = F.normalize(torch.randn(256, 16), dim=1)
    opt = optim.SGD(query.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    for _, (a,) in zip(range(120), stream(x), strict=False):
        q = F.normalize(query(a + 0.2 * torch.randn_like(a)), dim=1)
        with torch.no_grad():
            for slow, fast in zip(key.parameters(), query.parameters(), strict=True):
                slow.mul_(0.98).add_(fast, alpha=0.02)
            k = F.normalize(key(a + 0.2 * torch.randn_like(a)), dim=1)
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ queue.T], 1) / 0.2
        learn(opt, F.cross_entropy(logits, torch.zeros(len(a), dtype=torch.long)))
        queue = torch.cat([k, queue])[:256]


def state_carried_over_windows():
    """A recurrent model whose state is carried over windows, detached each time."""
    t = torch.arange(4000) * 0.1
    series = (t.sin() + 0.3 * (2.3 * t).sin()).view(8, 500, 1)
    rnn, out = nn.LSTM(1, 24, batch_first=True), nn.Linear(24, 1)
    opt = optim.Adam([*rnn.parameters(), *out.parameters()], lr=5e-3)
    for _ in range(4):
        state = None
        for i in range(0, 480, 20):
            h, state = rnn(series[:, i : i + 20], state)
            state = tuple(v.detach() for v in state)
            loss = F.mse_loss(out(h), series[:, i + 1 : i + 21])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(rnn.parameters(), 1.0)
            opt.step()


def trains_until_perfect():
    """An easy task is learnt in full: the loss goes to nothing and gradients with it."""
    x, y = kinds(noise=0.1)
    model = mlp()
    opt = optim.Adam(model.parameters(), lr=1e-2)
    for _, (a, b) in zip(range(250), stream(x, y), strict=False):
        learn(opt, F.cross_entropy(model(a), b))


def annealed_temperature():
    """Gumbel-softmax with a temperature that falls from 2 to 0.2."""
    enc, code, dec = mlp(16, 48, 12), nn.Parameter(torch.randn(12, 8)), mlp(8, 48, 16)
    opt = optim.Adam([*enc.parameters(), code, *dec.parameters()], lr=3e-3)
    x, _ = kinds()
    for step, (a,) in zip(range(150), stream(x), strict=False):
        tau = 2.0 * math.exp(-step * math.log(10) / 150)
        learn(opt, F.mse_loss(dec(F.gumbel_softmax(enc(a), tau=tau) @ code), a))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
