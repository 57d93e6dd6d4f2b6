import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class EMA(nn.Module):
    def __init__(self, model, beta=0.99, update_after_step=100, update_every=2):
        super().__init__()
        self.beta = beta
        self.online_model = model
        self.ema_model = copy.deepcopy(model)
        self.update_after_step = update_after_step
        self.update_every = update_every
        self.register_buffer("initted", torch.tensor([False]))
        self.register_buffer("step", torch.tensor([0]))

    def copy_params_from_model_to_ema(self):
        self.ema_model.state_dict(destination=self.online_model.state_dict())

    def update(self):
        self.step += 1
        if (self.step % self.update_every) != 0:
            return
        if self.step <= self.update_after_step:
            self.copy_params_from_model_to_ema()
            return
        if not self.initted:
            self.copy_params_from_model_to_ema()
            self.initted.data.copy_(torch.tensor([True]))
        self.update_moving_average()

    @torch.no_grad()
    def update_moving_average(self):
        for ma, cur in zip(self.ema_model.parameters(), self.online_model.parameters()):
            ma.data.mul_(self.beta).add_(cur.data, alpha=1 - self.beta)

    def forward(self, *args):
        return self.ema_model(*args)


class Prior(nn.Module):
    """Predicts an image embedding from a text embedding."""

    def __init__(self, dim=24, hidden=96):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(dim, hidden), nn.LayerNorm(hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, dim))

    def forward(self, text_embed):
        return self.net(text_embed)


class PriorTrainer:
    def __init__(self, prior, lr=2e-3, wd=1e-2):
        self.prior = prior
        self.ema_prior = EMA(prior)
        self.optimizer = torch.optim.AdamW(prior.parameters(), lr=lr, weight_decay=wd)

    def update(self, text, image):
        loss = F.mse_loss(self.prior(text), image)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.ema_prior.update()
        return loss.item()

    @torch.no_grad()
    def evaluate(self, loader):
        self.prior.eval()
        self.ema_prior.ema_model.eval()
        a = b = 0.0
        for text, image in loader:
            a += F.mse_loss(self.prior(text), image).item()
            b += F.mse_loss(self.ema_prior(text), image).item()
        self.prior.train()
        return a / len(loader), b / len(loader)


def embeddings(n, seed):
    g = torch.Generator().manual_seed(seed)
    fix = torch.Generator().manual_seed(88)
    a, b = torch.randn(24, 48, generator=fix) / 4, torch.randn(48, 24, generator=fix) / 5
    text = torch.randn(n, 24, generator=g)
    image = torch.tanh(text @ a) @ b + 0.05 * torch.randn(n, 24, generator=g)
    return TensorDataset(text, image / 0.8)


def main():
    torch.manual_seed(5)
    train_loader = DataLoader(embeddings(3200, 1), batch_size=64, shuffle=True)
    val_loader = DataLoader(embeddings(512, 2), batch_size=256)
    trainer = PriorTrainer(Prior())
    for epoch in range(8):
        losses = [trainer.update(text, image) for text, image in train_loader]
        online, ema = trainer.evaluate(val_loader)
        print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f} val online {online:.4f} val ema {ema:.4f}")


if __name__ == "__main__":
    main()
