"""Variational recurrent network (https://arxiv.org/abs/1506.02216) on rows of small stroke images."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

EPS = 1e-6


def make_strokes(n, size=14, seed=0):
    """Binary images of one thick line or ring, read row by row."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:size, :size]
    out = np.zeros((n, size, size), np.float32)
    for i in range(n):
        if rng.random() < 0.5:
            a = rng.uniform(0, np.pi)
            c = rng.uniform(4, size - 5, 2)
            d = np.abs((xx - c[0]) * np.sin(a) - (yy - c[1]) * np.cos(a))
            out[i] = d < 1.2
        else:
            c = rng.uniform(5, size - 6, 2)
            r = np.hypot(xx - c[0], yy - c[1])
            out[i] = np.abs(r - rng.uniform(3, 5)) < 0.9
    return torch.from_numpy(out)


class VRNN(nn.Module):
    def __init__(self, x_dim, h_dim, z_dim):
        super().__init__()
        self.h_dim = h_dim
        self.phi_x = nn.Sequential(nn.Linear(x_dim, h_dim), nn.ReLU(), nn.Linear(h_dim, h_dim), nn.ReLU())
        self.phi_z = nn.Sequential(nn.Linear(z_dim, h_dim), nn.ReLU())
        self.enc = nn.Sequential(nn.Linear(2 * h_dim, h_dim), nn.ReLU())
        self.enc_mean = nn.Linear(h_dim, z_dim)
        self.enc_std = nn.Sequential(nn.Linear(h_dim, z_dim), nn.Softplus())
        self.prior = nn.Sequential(nn.Linear(h_dim, h_dim), nn.ReLU())
        self.prior_mean = nn.Linear(h_dim, z_dim)
        self.prior_std = nn.Sequential(nn.Linear(h_dim, z_dim), nn.Softplus())
        self.dec = nn.Sequential(nn.Linear(2 * h_dim, h_dim), nn.ReLU(), nn.Linear(h_dim, x_dim))
        self.rnn = nn.GRUCell(2 * h_dim, h_dim)

    def forward(self, x):
        """x: (seq, batch, elem); returns KLD and NLL summed over the sequence, mean over the batch."""
        h = x.new_zeros(x.size(1), self.h_dim)
        phi_x_all = self.phi_x(x)
        kld_loss, nll_loss = 0, 0
        for t in range(x.size(0)):
            phi_x_t = phi_x_all[t]
            enc_t = self.enc(torch.cat([phi_x_t, h], 1))
            enc_mean, enc_std = self.enc_mean(enc_t), self.enc_std(enc_t) + EPS
            prior_t = self.prior(h)
            prior_mean, prior_std = self.prior_mean(prior_t), self.prior_std(prior_t) + EPS
            z_t = enc_mean + enc_std * torch.randn_like(enc_std)
            phi_z_t = self.phi_z(z_t)
            logits = self.dec(torch.cat([phi_z_t, h], 1))
            h = self.rnn(torch.cat([phi_x_t, phi_z_t], 1), h)
            kld = 2 * torch.log(prior_std) - 2 * torch.log(enc_std) + \
                (enc_std.pow(2) + (enc_mean - prior_mean).pow(2)) / prior_std.pow(2) - 1
            kld_loss = kld_loss + 0.5 * kld.sum() / x.size(1)
            nll_loss = nll_loss + F.binary_cross_entropy_with_logits(logits, x[t], reduction="sum") / x.size(1)
        return kld_loss, nll_loss


def train(epoch, model, train_loader, optimizer, clip, print_every=40):
    model.train()
    train_loss = 0
    for batch_idx, (data,) in enumerate(train_loader):
        data = data.transpose(0, 1)                   # (seq, batch, elem)

        # forward + backward + optimize
        optimizer.zero_grad()
        kld_loss, nll_loss = model(data)
        loss = kld_loss + nll_loss
        loss.backward()
        optimizer.step()

        # grad norm clipping
        nn.utils.clip_grad_norm_(model.parameters(), clip)

        if batch_idx % print_every == 0:
            print("Train Epoch: {} [{}/{}]\t KLD Loss: {:.4f} \t NLL Loss: {:.4f}".format(
                epoch, batch_idx, len(train_loader), kld_loss.item(), nll_loss.item()), flush=True)
        train_loss += loss.item()
    print("====> Epoch: {} Average loss: {:.4f}".format(epoch, train_loss / len(train_loader)), flush=True)


@torch.no_grad()
def test(model, test_loader):
    model.eval()
    kld, nll = 0.0, 0.0
    for (data,) in test_loader:
        k, n = model(data.transpose(0, 1))
        kld += k.item()
        nll += n.item()
    print("====> Test set loss: KLD Loss = {:.4f}, NLL Loss = {:.4f}".format(
        kld / len(test_loader), nll / len(test_loader)), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--clip", type=float, default=10)
    parser.add_argument("--seed", type=int, default=128)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    train_loader = DataLoader(TensorDataset(make_strokes(4000, seed=1)), batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(TensorDataset(make_strokes(500, seed=2)), batch_size=100)
    model = VRNN(14, 64, 12)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(1, args.epochs + 1):
        train(epoch, model, train_loader, optimizer, args.clip)
        test(model, test_loader)


if __name__ == "__main__":
    main()
