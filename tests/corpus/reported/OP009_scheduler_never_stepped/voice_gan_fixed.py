import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import ExponentialLR
from torch.utils.data import DataLoader, TensorDataset

hps = {
    "seed": 1234,
    "epochs": 10,
    "learning_rate": 2e-3,
    "betas": (0.8, 0.99),
    "lr_decay": 0.9,
    "batch_size": 32,
    "c_mel": 10.0,
}


class SynthesizerTrn(nn.Module):
    def __init__(self, units=16, frame=64):
        super().__init__()
        self.pre = nn.Conv1d(units + 1, 64, 3, padding=1)
        self.res = nn.ModuleList([nn.Conv1d(64, 64, 3, padding=1) for _ in range(3)])
        self.post = nn.Conv1d(64, frame, 1)

    def forward(self, c, f0):
        h = self.pre(torch.cat([c, f0], dim=1))
        for conv in self.res:
            h = h + conv(F.leaky_relu(h, 0.1))
        return self.post(F.leaky_relu(h, 0.1))


class Discriminator(nn.Module):
    def __init__(self, frame=64):
        super().__init__()
        self.a = nn.Conv1d(frame, 64, 3, padding=1)
        self.b = nn.Conv1d(64, 32, 3, padding=1)
        self.c = nn.Conv1d(32, 1, 1)

    def forward(self, y):
        h = F.leaky_relu(self.a(y), 0.1)
        return self.c(F.leaky_relu(self.b(h), 0.1))


def corpus(n, seed):
    table = torch.randn(16, 64, generator=torch.Generator().manual_seed(99))
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 16, (n, 12), generator=g)
    c = F.one_hot(ids, 16).float().transpose(1, 2)
    f0 = torch.rand(n, 1, 12, generator=g)
    y = table[ids].transpose(1, 2) * (0.5 + f0) + 0.05 * torch.randn(n, 64, 12, generator=g)
    return TensorDataset(c, f0, y)


class VitsModule:
    def __init__(self, hps):
        self.hps = hps
        self.net_g = SynthesizerTrn()
        self.net_d = Discriminator()
        self.optim_g = torch.optim.AdamW(self.net_g.parameters(), hps["learning_rate"], betas=hps["betas"])
        self.optim_d = torch.optim.AdamW(self.net_d.parameters(), hps["learning_rate"] * 0.2, betas=hps["betas"])
        self.scheduler_g = ExponentialLR(self.optim_g, gamma=hps["lr_decay"])
        self.scheduler_d = ExponentialLR(self.optim_d, gamma=hps["lr_decay"])

    def training_step(self, batch):
        c, f0, y = batch
        y_hat = self.net_g(c, f0)
        real, fake = self.net_d(y), self.net_d(y_hat.detach())
        loss_d = ((1 - real) ** 2).mean() + (fake ** 2).mean()
        self.optim_d.zero_grad()
        loss_d.backward()
        self.optim_d.step()

        self.net_d.requires_grad_(False)
        loss_mel = F.l1_loss(y_hat, y) * self.hps["c_mel"]
        loss_gen = ((1 - self.net_d(y_hat)) ** 2).mean()
        loss_g = loss_mel + loss_gen
        self.optim_g.zero_grad()
        loss_g.backward()
        self.optim_g.step()
        self.net_d.requires_grad_(True)
        return loss_d.item(), loss_g.item(), loss_mel.item()

    def on_train_epoch_end(self):
        self.scheduler_g.step()
        self.scheduler_d.step()

    @torch.no_grad()
    def validate(self, loader):
        self.net_g.eval()
        out = sum(F.l1_loss(self.net_g(c, f0), y).item() for c, f0, y in loader) / len(loader)
        self.net_g.train()
        return out


def main():
    torch.manual_seed(hps["seed"])
    train_loader = DataLoader(corpus(640, 0), batch_size=hps["batch_size"], shuffle=True)
    val_loader = DataLoader(corpus(128, 1), batch_size=hps["batch_size"])
    module = VitsModule(hps)
    for epoch in range(hps["epochs"]):
        stats = [module.training_step(b) for b in train_loader]
        module.on_train_epoch_end()
        d, g, mel = (sum(s[i] for s in stats) / len(stats) for i in range(3))
        print(f"epoch {epoch:02d} loss_d {d:.3f} loss_g {g:.3f} mel {mel:.3f} val_l1 {module.validate(val_loader):.4f}")


if __name__ == "__main__":
    main()
