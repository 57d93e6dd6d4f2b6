"""Sparse autoencoder on activations of a small language model."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

config = {
    "seed": 0,
    "d_model": 32,
    "n_dict": 64,
    "batch_size": 32,
    "effective_batch_size": 256,
    "lr": 0.4,
    "momentum": 0.9,
    "sparsity_coeff": 0.02,
    "warmup_samples": 2560,
    "n_samples": 40960,
    "log_every": 20,
}


def collect_activations(n, d_model, seed):
    gen = torch.Generator().manual_seed(seed)
    directions = F.normalize(torch.randn(40, d_model, generator=torch.Generator().manual_seed(5)), dim=1)
    active = (torch.rand(n, 40, generator=gen) < 0.06).float()
    strength = 0.5 + torch.rand(n, 40, generator=gen)
    acts = (active * strength) @ directions + 0.02 * torch.randn(n, d_model, generator=gen)
    return acts / 0.27


class SAE(nn.Module):
    def __init__(self, d_model, n_dict):
        super().__init__()
        self.encoder = nn.Linear(d_model, n_dict)
        self.decoder = nn.Linear(n_dict, d_model)
        nn.init.orthogonal_(self.decoder.weight)
        with torch.no_grad():
            self.encoder.weight.copy_(self.decoder.weight.T)
            self.encoder.bias.zero_()
            self.decoder.bias.zero_()

    def forward(self, x):
        c = F.relu(self.encoder(x))
        return self.decoder(c), c


def calc_loss(orig, new, c, coeff):
    recon = F.mse_loss(new, orig)
    sparsity = c.abs().mean()
    return recon + coeff * sparsity, recon, sparsity


def main():
    torch.manual_seed(config["seed"])
    data = collect_activations(config["n_samples"], config["d_model"], seed=1)
    held_out = collect_activations(2000, config["d_model"], seed=2)
    loader = DataLoader(TensorDataset(data), batch_size=config["batch_size"], shuffle=True)
    model = SAE(config["d_model"], config["n_dict"])
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=config["momentum"])
    n_accumulate = config["effective_batch_size"] // config["batch_size"]
    warmup = config["warmup_samples"] // config["effective_batch_size"]
    total = len(loader) // n_accumulate
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / warmup) * max(0.1, 1 - s / total))

    grad_updates = 0
    optimizer.zero_grad()
    for batch_idx, (acts,) in enumerate(loader):
        new, c = model(acts)
        loss, recon, sparsity = calc_loss(acts, new, c, config["sparsity_coeff"])
        loss = loss / n_accumulate
        loss.backward()
        if (batch_idx + 1) % n_accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
            if grad_updates % config["log_every"] == 0:
                with torch.no_grad():
                    out, code = model(held_out)
                    ev = F.mse_loss(out, held_out).item()
                    l0 = (code > 0).float().sum(1).mean().item()
                print(f"update {grad_updates} recon {recon.item():.4f} eval recon {ev:.4f} L0 {l0:.1f}")
            grad_updates += 1
    with torch.no_grad():
        out, code = model(held_out)
    print(f"final eval recon {F.mse_loss(out, held_out).item():.4f} L0 {(code > 0).float().sum(1).mean().item():.1f}")


if __name__ == "__main__":
    main()
