import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def make_domain(kind, n, seed, length=24):
    g = torch.Generator().manual_seed(seed)
    t = torch.linspace(0, 1, length)
    freq = 1 + 2 * torch.rand(n, 1, generator=g)
    phase = 6.283 * torch.rand(n, 1, generator=g)
    s = torch.sin(6.283 * freq * t + phase)
    if kind == "a":
        x = 0.7 * s - 0.4
    else:
        x = 0.9 * torch.sign(s) * s.abs().sqrt() + 0.4
    return x + 0.05 * torch.randn(n, length, generator=g)


class Generator(nn.Module):
    def __init__(self, length=24, hidden=128):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(length, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                                 nn.Linear(hidden, length))

    def forward(self, x):
        return x + self.net(x)


class Discriminator(nn.Module):
    def __init__(self, length=24, hidden=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(length, hidden), nn.LeakyReLU(0.2), nn.Linear(hidden, hidden),
                                 nn.LeakyReLU(0.2), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x)


class RecycleModel:
    def __init__(self, lambda_cycle=5.0):
        self.G_ab, self.G_ba = Generator(), Generator()
        self.D_a, self.D_b = Discriminator(), Discriminator()
        self.optim_G = torch.optim.Adam(itertools.chain(self.G_ab.parameters(), self.G_ba.parameters()),
                                        lr=5e-4, betas=(0.5, 0.999))
        self.optim_D = torch.optim.Adam(itertools.chain(self.D_a.parameters(), self.D_b.parameters()),
                                        lr=5e-4, betas=(0.5, 0.999))
        self.lambda_cycle = lambda_cycle

    def criterion_adv(self, logits, is_real):
        target = torch.ones_like(logits) if is_real else torch.zeros_like(logits)
        return F.mse_loss(logits, target)

    def update_generator(self, true_x, reconst_x, D, candidate):
        adv = self.criterion_adv(D(candidate), True)
        cycle = F.l1_loss(reconst_x, true_x)
        return adv + self.lambda_cycle * cycle, adv, cycle

    def update_discriminator(self, D, real, fake):
        return 0.5 * (self.criterion_adv(D(real), True) + self.criterion_adv(D(fake.detach()), False))

    def backward(self, true_a, true_b):
        fake_b, fake_a = self.G_ab(true_a), self.G_ba(true_b)
        reconst_a, reconst_b = self.G_ba(fake_b), self.G_ab(fake_a)

        loss_a, adv_a, cyc_a = self.update_generator(true_a, reconst_a, self.D_b, fake_b)
        loss_b, adv_b, cyc_b = self.update_generator(true_b, reconst_b, self.D_a, fake_a)
        loss_G = loss_a + loss_b
        self.optim_G.zero_grad()
        loss_G.backward()
        self.optim_G.step()

        loss_D = self.update_discriminator(self.D_a, true_a, fake_a) + self.update_discriminator(self.D_b, true_b, fake_b)
        self.optim_D.zero_grad()
        loss_D.backward()
        self.optim_D.step()
        return {"G": loss_G.item(), "adv": (adv_a + adv_b).item(), "cycle": (cyc_a + cyc_b).item(), "D": loss_D.item()}

    @torch.no_grad()
    def statistics_gap(self, a, b):
        fake_b, fake_a = self.G_ab(a), self.G_ba(b)
        gap = (fake_b.mean() - b.mean()).abs() + (fake_a.mean() - a.mean()).abs()
        return gap.item() + ((fake_b.std() - b.std()).abs() + (fake_a.std() - a.std()).abs()).item()


def main():
    torch.manual_seed(9)
    loader = DataLoader(TensorDataset(make_domain("a", 1920, 0), make_domain("b", 1920, 1)), batch_size=64, shuffle=True)
    val_a, val_b = make_domain("a", 256, 2), make_domain("b", 256, 3)
    model = RecycleModel()
    for epoch in range(10):
        logs = [model.backward(a, b) for a, b in loader]
        mean = {k: sum(l[k] for l in logs) / len(logs) for k in logs[0]}
        print("epoch %d " % epoch + " ".join(f"{k} {v:.4f}" for k, v in mean.items())
              + f" | val gap {model.statistics_gap(val_a, val_b):.4f}")


if __name__ == "__main__":
    main()
