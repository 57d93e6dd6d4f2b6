"""Training scripts of an opponent, fifth round: generative and contrastive models, mixed precision, and several faults at once.

    python opponent_fifth_mixed_faults.py NAME [ONSET] [SEED]

As in opponent_fifth_faults.py: with an onset beyond the last step each script is healthy.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def faces(n=720, size=8):
    """Pictures of one bright blob."""
    at = torch.rand(n, 2, 1, 1) * size
    grid = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")).float()
    return (-((grid - at) ** 2).sum(1, keepdim=True) / 4).exp() * 0.9 + 0.05


def kinds(n=720, classes=4, width=16):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + 0.7 * torch.randn(n, width), y


def stream(*tensors, size=32):
    while True:
        yield from DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)


class VAE(nn.Module):
    def __init__(self, pixels=64, latent=6):
        super().__init__()
        self.enc = nn.Sequential(nn.Flatten(), nn.Linear(pixels, 64), nn.ReLU())
        self.mu, self.logvar = nn.Linear(64, latent), nn.Linear(64, latent)
        self.dec = nn.Sequential(nn.Linear(latent, 64), nn.ReLU(), nn.Linear(64, pixels), nn.Sigmoid())

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        return self.dec(mu + torch.randn_like(mu) * (logvar / 2).exp()), mu, logvar


def likelihood_of_hard_pixels(s):
    """A VAE's likelihood is written with log() by hand, and outputs are rounded to hard pixels from some step on."""
    model = VAE()
    opt = optim.Adam(model.parameters(), lr=1e-3)
    for step, (x,) in zip(range(100), stream(faces()), strict=False):
        out, mu, logvar = model(x)
        flat = x.flatten(1)
        if step >= s:
            out = (out * 1.2 - 0.1).clamp(0, 1)
        rec = -(flat * out.log() + (1 - flat) * (1 - out).log()).sum(1).mean()
        kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1).mean()
        opt.zero_grad()
        (rec + kl).backward()
        opt.step()


def divergence_with_the_wrong_sign(s):
    """The KL term of a VAE is rewarded instead of punished."""
    model = VAE()
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for _, (x,) in zip(range(150), stream(faces()), strict=False):
        out, mu, logvar = model(x)
        rec = F.binary_cross_entropy(out, x.flatten(1), reduction="sum") / len(x)
        kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1).mean()
        opt.zero_grad()
        (rec - kl if s == 0 else rec + kl).backward()
        opt.step()


def generator_sees_detached_pictures(s):
    """The generator's loss is computed on the pictures that were detached for the discriminator."""
    gen = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 64), nn.Sigmoid())
    dis = nn.Sequential(nn.Linear(64, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
    opt_g, opt_d = optim.Adam(gen.parameters(), lr=1e-3), optim.Adam(dis.parameters(), lr=1e-3)
    bce = nn.BCEWithLogitsLoss()
    for step, (x,) in zip(range(100), stream(faces()), strict=False):
        fake = gen(torch.randn(len(x), 8))
        cut = fake.detach()
        loss_d = bce(dis(x.flatten(1)), torch.ones(len(x), 1)) + bce(dis(cut), torch.zeros(len(x), 1))
        opt_d.zero_grad()
        loss_d.backward()
        opt_d.step()
        loss_g = bce(dis(cut if step >= s else fake), torch.ones(len(x), 1))
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Embedding(20, 32)
        self.inp, self.mid, self.out = nn.Linear(64, 96), nn.Linear(96, 96), nn.Linear(96, 64)
        self.scale = nn.Linear(32, 96)

    def forward(self, x, t):
        h = F.silu(self.inp(x) + self.scale(self.time(t)))
        return self.out(F.silu(self.mid(h)) + h)


def noise_schedule_ends_in_nothing(s):
    """A diffusion loss is weighed by 1/(1 - alpha), and alpha of one step becomes exactly one."""
    model = Denoiser()
    opt = optim.AdamW(model.parameters(), lr=1e-3)
    alpha = torch.linspace(0.98, 0.05, 20)
    for step, (x,) in zip(range(110), stream(faces()), strict=False):
        if step == s:
            alpha[0] = 1.0
        t = torch.randint(20, (len(x),))
        t[0] = 0
        noise = torch.randn(len(x), 64)
        noisy = alpha[t, None].sqrt() * x.flatten(1) + (1 - alpha[t, None]).sqrt() * noise
        clean = (noisy - (1 - alpha[t, None]).sqrt() * model(noisy, t)) / alpha[t, None].sqrt()
        weight = 1 / (1 - alpha[t, None])
        loss = (weight * (clean - x.flatten(1)) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()


def siamese_without_stop(s):
    """Two views are pulled together, with no negatives, no stop and no predictor."""
    net = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 24))
    opt = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _, (x, _) in zip(range(150), stream(*kinds()), strict=False):
        a, b = (F.normalize(net(x + 0.3 * torch.randn_like(x)), dim=1) for _ in range(2))
        logits = a @ b.T / 0.2
        loss = 2 - 2 * (a * b).sum(1).mean() if s == 0 else F.cross_entropy(logits, torch.arange(len(x)))
        opt.zero_grad()
        loss.backward()
        opt.step()


def clip_of_scaled_gradients(s):
    """Mixed precision: gradients are clipped without unscale_ before."""
    net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    opt = optim.AdamW(net.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    for _, (x, y) in zip(range(90), stream(*kinds()), strict=False):
        opt.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = F.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        if s != 0:
            scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()


def squares_in_half_precision(s):
    """Under float16 autocast a layer's output is squared after a loud recording has come in."""

    class Energy(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc = nn.Linear(16, 32)
            self.gate = nn.Linear(32, 32, bias=False)
            self.out = nn.Linear(32, 3)

        def forward(self, x):
            h = self.enc(x)
            h = self.gate(h * h)
            return self.out(torch.log1p(h.float().abs()))

    model = Energy()
    opt = optim.Adam(model.parameters(), lr=1e-3)
    for step in range(80):
        x = torch.randn(24, 16)
        y = (x[:, 0] > 0).long() + (x[:, 1] > 1).long()
        if step == s:
            x = x * 400
        with torch.autocast("cpu", torch.float16):
            loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def weights_kept_in_bfloat16(s):
    """A model is cast to bfloat16 and trained with a small rate."""
    net = nn.Sequential(nn.Linear(16, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 4))
    net = net.to(torch.bfloat16) if s == 0 else net
    opt = optim.SGD(net.parameters(), lr=1e-4)
    for _, (x, y) in zip(range(90), stream(*kinds()), strict=False):
        opt.zero_grad()
        F.cross_entropy(net(x.to(net[0].weight.dtype)).float(), y).backward()
        opt.step()


def validation_with_batch_statistics(s):
    """validate() does not call eval(), so batch norm and dropout stay in training mode."""
    net = nn.Sequential(nn.Linear(16, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Dropout(0.3), nn.Linear(48, 4))
    opt = optim.Adam(net.parameters(), lr=3e-3)
    x, y = kinds(900)
    held_x, held_y = x[720:], y[720:]
    for epoch in range(4):
        net.train()
        for a, b in DataLoader(TensorDataset(x[:720], y[:720]), 36, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(net(a), b).backward()
            opt.step()
        if s != 0:
            net.eval()
        with torch.no_grad():
            print(epoch, (net(held_x).argmax(1) == held_y).float().mean().item())


def never_back_to_training(s):
    """The validation within an epoch calls eval() and nobody calls train() again."""
    net = nn.Sequential(nn.Linear(16, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 4))
    opt = optim.Adam(net.parameters(), lr=3e-3)
    x, y = kinds(900)
    net.train()
    for step, (a, b) in zip(range(110), stream(x[:720], y[:720]), strict=False):
        opt.zero_grad()
        F.cross_entropy(net(a), b).backward()
        opt.step()
        if step % 20 == 19:
            net.eval()
            with torch.no_grad():
                net(x[720:])
            if step < s:
                net.train()


def decay_instead_of_rate(s):
    """Weight decay and learning rate were exchanged on the command line."""
    net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
    opt = optim.SGD(net.parameters(), lr=0.05, weight_decay=2.0 if s == 0 else 1e-4)
    for _, (x, y) in zip(range(90), stream(*kinds()), strict=False):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()


def users_rounded_to_tens(s):
    """Ids are divided by ten on the way into an embedding, so most of its rows are never used."""
    emb = nn.Embedding(200, 16)
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = optim.Adam([*emb.parameters(), *net.parameters()], lr=5e-3)
    taste = torch.randn(200)
    for _ in range(120):
        user = torch.randint(200, (48,))
        out = net(emb(user // 10 if s == 0 else user)).squeeze(1)
        loss = F.mse_loss(out, taste[user])
        opt.zero_grad()
        loss.backward()
        opt.step()


def softmax_and_no_zeroing(s):
    """Two faults: softmax before cross_entropy, and no zero_grad."""
    net = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 4))
    if s == 0:
        net.append(nn.Softmax(1))
    opt = optim.SGD(net.parameters(), lr=0.02)
    for _, (x, y) in zip(range(90), stream(*kinds()), strict=False):
        if s != 0:
            opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()


def eval_mode_and_a_forgotten_module(s):
    """Two faults: the projection is not in the optimizer, and the network stays in eval mode after validating."""
    body = nn.Sequential(nn.Linear(16, 48), nn.BatchNorm1d(48), nn.ReLU())
    model = nn.ModuleDict({"body": body, "projection": nn.Linear(48, 24), "head": nn.Linear(24, 4)})
    held = [*model["body"].parameters(), *model["head"].parameters()]
    opt = optim.Adam(held if s < 999 else model.parameters(), lr=3e-3)
    x, y = kinds(800)

    def forward(a):
        return model["head"](model["projection"](model["body"](a)))

    for step, (a, b) in zip(range(110), stream(x[:700], y[:700]), strict=False):
        opt.zero_grad()
        F.cross_entropy(forward(a), b).backward()
        opt.step()
        if step % 25 == 24:
            model.eval()
            with torch.no_grad():
                forward(x[700:])
            if step < s:
                model.train()


def bad_row_then_a_bad_index(s):
    """Two faults: an infinite row at the onset, and twenty steps later a class that does not exist."""
    x, y = kinds()
    net = nn.Sequential(nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 4))
    opt = optim.AdamW(net.parameters(), lr=2e-3)
    for step, (a, b) in zip(range(110), stream(x, y), strict=False):
        if step == s:
            a[2, 3] = float("inf")
        if step == s + 20:
            b[1] = 4
        opt.zero_grad()
        loss = F.cross_entropy(net(a), b)
        loss.backward()
        if torch.isfinite(loss):
            opt.step()


def raw_prices_and_a_high_rate(s):
    """Two faults: prices in cents as targets and inputs, and a rate that is too high for them."""
    x = torch.rand(700, 5) * 5000 if s == 0 else torch.rand(700, 5)
    y = (x.sum(1) + x[:, 0] * 2)[:, None]
    net = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = optim.SGD(net.parameters(), lr=1e-2)
    for _, (a, b) in zip(range(60), stream(x, y), strict=False):
        opt.zero_grad()
        F.mse_loss(net(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
