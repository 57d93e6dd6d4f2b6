"""TimeGAN (PyTorch rebuild): synthetic time series on multi-variate sine data."""
import argparse
import time

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)


def sine_data_generation(no, seq_len, dim, seed):
    rng = np.random.default_rng(seed)
    freq = rng.uniform(0.05, 0.4, size=(no, 1, dim))
    phase = rng.uniform(0, 2 * np.pi, size=(no, 1, dim))
    data = np.sin(freq * np.arange(seq_len)[None, :, None] + phase)
    data[..., 0] = data[..., 0] * (0.6 + 0.4 * data[..., 1])
    return data.astype(np.float32)


def min_max_scaler(data):
    lo = data.min(axis=(0, 1))
    hi = (data - lo).max(axis=(0, 1))
    return (data - lo) / (hi + 1e-7)


class RecurrentBlock(nn.Module):
    def __init__(self, in_dim, hidden_dim, out_dim, layers, activation=True):
        super().__init__()
        self.rnn = nn.GRU(in_dim, hidden_dim, layers, batch_first=True)
        self.fc = nn.Linear(hidden_dim, out_dim)
        self.activation = activation
        for name, param in self.named_parameters():
            if "bias" in name:
                nn.init.zeros_(param)
            else:
                nn.init.xavier_normal_(param)

    def forward(self, x):
        out = self.fc(self.rnn(x)[0])
        return torch.sigmoid(out) if self.activation else out


class TimeGAN:
    def __init__(self, opt, train_data):
        self.opt = opt
        self.train_data = torch.from_numpy(train_data)
        self.rng = np.random.default_rng(opt.seed)
        h, z, n = opt.hidden_dim, opt.z_dim, opt.num_layer
        self.embedder = RecurrentBlock(z, h, h, n)
        self.recovery = RecurrentBlock(h, h, z, n)
        self.generator = RecurrentBlock(z, h, h, n)
        self.supervisor = RecurrentBlock(h, h, h, n)
        self.discriminator = RecurrentBlock(h, h, 1, n, activation=False)
        self.optim_embedder = torch.optim.Adam(self.embedder.parameters(), lr=opt.lr)
        self.optim_recovery = torch.optim.Adam(self.recovery.parameters(), lr=opt.lr)
        self.optim_generator = torch.optim.Adam(self.generator.parameters(), lr=opt.lr)
        self.optim_supervisor = torch.optim.Adam(self.supervisor.parameters(), lr=opt.lr)
        self.optim_discriminator = torch.optim.Adam(self.discriminator.parameters(), lr=opt.lr)
        self.MSELoss = nn.MSELoss()
        self.BCELoss = nn.BCEWithLogitsLoss()

    def gen_batch(self):
        idx = self.rng.permutation(len(self.train_data))[: self.opt.batch_size]
        self.X = self.train_data[torch.from_numpy(idx)]
        self.Z = torch.from_numpy(
            self.rng.uniform(0, 1, size=(len(idx), self.opt.seq_len, self.opt.z_dim)).astype(np.float32))

    def batch_forward(self):
        self.H = self.embedder(self.X)
        self.X_tilde = self.recovery(self.H)
        self.H_hat_supervise = self.supervisor(self.H)
        self.E_hat = self.generator(self.Z)
        self.H_hat = self.supervisor(self.E_hat)
        self.X_hat = self.recovery(self.H_hat)
        self.Y_real = self.discriminator(self.H)
        self.Y_fake = self.discriminator(self.H_hat)
        self.Y_fake_e = self.discriminator(self.E_hat)

    def train_embedder(self, join_train):
        self.embedder.train()
        self.recovery.train()
        self.optim_embedder.zero_grad()
        self.optim_recovery.zero_grad()
        self.E_loss_T0 = self.MSELoss(self.X, self.X_tilde)
        self.E_loss0 = 10 * torch.sqrt(self.E_loss_T0)
        if not join_train:
            self.E_loss0.backward()
        else:
            self.G_loss_S = self.MSELoss(self.H[:, 1:, :], self.H_hat_supervise[:, :-1, :])
            self.E_loss = self.E_loss0 + 0.1 * self.G_loss_S
        self.optim_embedder.step()
        self.optim_recovery.step()

    def train_supervisor(self):
        self.optim_generator.zero_grad()
        self.optim_supervisor.zero_grad()
        self.G_loss_S = self.MSELoss(self.H[:, 1:, :], self.H_hat_supervise[:, :-1, :])
        self.G_loss_S.backward()
        self.optim_supervisor.step()

    def train_generator(self):
        self.optim_generator.zero_grad()
        self.optim_supervisor.zero_grad()
        ones = torch.ones_like(self.Y_fake)
        self.G_loss_U = self.BCELoss(self.Y_fake, ones)
        self.G_loss_U_e = self.BCELoss(self.Y_fake_e, ones)
        v1 = torch.mean(torch.abs(self.X_hat.std(dim=0) - self.X.std(dim=0)))
        v2 = torch.mean(torch.abs(self.X_hat.mean(dim=0) - self.X.mean(dim=0)))
        self.G_loss_V = v1 + v2
        self.G_loss_S = self.MSELoss(self.H[:, 1:, :], self.H_hat_supervise[:, :-1, :])
        self.G_loss = (self.G_loss_U + self.opt.gamma * self.G_loss_U_e
                       + 100 * torch.sqrt(self.G_loss_S) + 100 * self.G_loss_V)
        self.G_loss.backward()
        self.optim_generator.step()
        self.optim_supervisor.step()

    def train_discriminator(self):
        self.optim_discriminator.zero_grad()
        self.D_loss = (self.BCELoss(self.Y_real, torch.ones_like(self.Y_real))
                       + self.BCELoss(self.Y_fake, torch.zeros_like(self.Y_fake))
                       + self.opt.gamma * self.BCELoss(self.Y_fake_e, torch.zeros_like(self.Y_fake_e)))
        if self.D_loss.item() > 0.15:
            self.D_loss.backward()
            self.optim_discriminator.step()

    @torch.no_grad()
    def reconstruction_rmse(self, data):
        x = torch.from_numpy(data)
        return self.MSELoss(self.recovery(self.embedder(x)), x).sqrt().item()


def train(opt):
    data = min_max_scaler(sine_data_generation(opt.num_samples, opt.seq_len, opt.z_dim, opt.seed))
    n_val = len(data) // 5
    val_data, train_data = data[:n_val], data[n_val:]
    model = TimeGAN(opt, train_data)
    t0 = time.time()

    print("Start Embedding Network Training")
    for i in range(opt.embed_iters):
        model.gen_batch()
        model.batch_forward()
        model.train_embedder(join_train=False)
        if (i + 1) % 50 == 0:
            print(f"step {i + 1}/{opt.embed_iters} e_loss_t0 {model.E_loss_T0.sqrt().item():.4f} "
                  f"val_recon {model.reconstruction_rmse(val_data):.4f}")

    print("Start Training with Supervised Loss Only")
    for i in range(opt.sup_iters):
        model.gen_batch()
        model.batch_forward()
        model.train_supervisor()
        if (i + 1) % 50 == 0:
            print(f"step {i + 1}/{opt.sup_iters} s_loss {model.G_loss_S.sqrt().item():.4f}")

    print("Start Joint Training")
    for i in range(opt.joint_iters):
        for _ in range(2):
            model.gen_batch()
            model.batch_forward()
            model.train_generator()
            model.batch_forward()
            model.train_embedder(join_train=True)
        model.gen_batch()
        model.batch_forward()
        model.train_discriminator()
        if (i + 1) % 20 == 0:
            print(f"step {i + 1}/{opt.joint_iters} d_loss {model.D_loss.item():.4f} "
                  f"g_loss_u {model.G_loss_U.item():.4f} g_loss_v {model.G_loss_V.item():.4f} "
                  f"s_loss {model.G_loss_S.sqrt().item():.4f} e_loss_t0 {model.E_loss_T0.sqrt().item():.4f} "
                  f"val_recon {model.reconstruction_rmse(val_data):.6f} ({time.time() - t0:.1f}s)")
    print(f"Finish Joint Training, reconstruction rmse {model.reconstruction_rmse(val_data):.6f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--seq_len", type=int, default=12)
    p.add_argument("--z_dim", type=int, default=5)
    p.add_argument("--hidden_dim", type=int, default=16)
    p.add_argument("--num_layer", type=int, default=1)
    p.add_argument("--batch_size", type=int, default=48)
    p.add_argument("--num_samples", type=int, default=1000)
    p.add_argument("--gamma", type=float, default=1.0)
    p.add_argument("--lr", type=float, default=4e-3)
    p.add_argument("--embed_iters", type=int, default=150)
    p.add_argument("--sup_iters", type=int, default=50)
    p.add_argument("--joint_iters", type=int, default=120)
    p.add_argument("--seed", type=int, default=7)
    opt = p.parse_args()
    torch.manual_seed(opt.seed)
    np.random.seed(opt.seed)
    train(opt)
