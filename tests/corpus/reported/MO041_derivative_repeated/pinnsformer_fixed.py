"""PINNsFormer on 1d convection-diffusion, u_t + c u_x = nu u_xx, periodic in x, u(x,0) = sin(pi x)."""
import argparse
import copy
import time

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)


def reference_solution(c, nu, x, t):
    return np.exp(-nu * np.pi ** 2 * t)[:, None] * np.sin(np.pi * (x[None, :] - c * t[:, None]))


def make_time_sequence(src, num_step, step):
    seq = np.repeat(src[:, None, :], num_step, axis=1)
    seq[:, :, 1] += step * np.arange(num_step)[None, :]
    return seq


class WaveAct(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.ones(1))
        self.w2 = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.w1 * torch.sin(x) + self.w2 * torch.cos(x)


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear = nn.Sequential(nn.Linear(d_model, d_ff), WaveAct(), nn.Linear(d_ff, d_ff), WaveAct(),
                                    nn.Linear(d_ff, d_model))

    def forward(self, x):
        return self.linear(x)


class Attention(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(d_model, d_model) for _ in range(3))
        self.o = nn.Linear(d_model, d_model)

    def forward(self, x, mem):
        b, s, d = x.shape

        def split(y):
            return y.reshape(b, -1, self.heads, d // self.heads).transpose(1, 2)
        q, k, v = split(self.q(x)), split(self.k(mem)), split(self.v(mem))
        att = torch.softmax(q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5, dim=-1)
        return self.o((att @ v).transpose(1, 2).reshape(b, s, d))


class Layer(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.attn, self.ff = Attention(d_model, heads), FeedForward(d_model, 32)
        self.act1, self.act2 = WaveAct(), WaveAct()

    def forward(self, x, mem=None):
        x2 = self.act1(x)
        x = x + self.attn(x2, x2 if mem is None else mem)
        return x + self.ff(self.act2(x))


class PINNsformer(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.linear_emb = nn.Linear(2, d_model)
        self.encoder, self.decoder = Layer(d_model, heads), Layer(d_model, heads)
        self.act1, self.act2 = WaveAct(), WaveAct()
        self.linear_out = nn.Sequential(nn.Linear(d_model, 32), WaveAct(), nn.Linear(32, 1))

    def forward(self, x, t):
        src = self.linear_emb(torch.cat((x, t), dim=-1))
        e = self.act1(self.encoder(src))
        return self.linear_out(self.act2(self.decoder(src, e)))


def init_weights(m):
    if isinstance(m, nn.Linear):
        nn.init.xavier_uniform_(m.weight)
        m.bias.data.fill_(0.01)


def to_xt(points, num_step, step):
    seq = torch.tensor(make_time_sequence(points, num_step, step), dtype=torch.float32)
    return seq[:, :, 0:1].clone().requires_grad_(True), seq[:, :, 1:2].clone().requires_grad_(True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--c", type=float, default=0.5)
    p.add_argument("--nu", type=float, default=0.1)
    p.add_argument("--iters", type=int, default=300)
    p.add_argument("--lr", type=float, default=5e-3)
    p.add_argument("--num_step", type=int, default=3)
    p.add_argument("--step", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    gx, gt = np.linspace(-1, 1, 13), np.linspace(0, 1, 9)
    xx, tt = np.meshgrid(gx, gt)
    res = np.stack([xx.ravel(), tt.ravel()], axis=1)
    b_start = np.stack([np.linspace(-1, 1, 25), np.zeros(25)], axis=1)
    b_side = np.stack([np.r_[-np.ones(9), np.ones(9)], np.r_[gt, gt]], axis=1)
    x_res, t_res = to_xt(res, args.num_step, args.step)
    x_ini, t_ini = to_xt(b_start, args.num_step, args.step)
    x_bnd, t_bnd = to_xt(b_side, args.num_step, args.step)
    u_ini = torch.sin(np.pi * x_ini[:, 0]).detach()

    model = PINNsformer(d_model=16, heads=2)
    model.apply(init_weights)
    optim = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(optim, args.iters, eta_min=1e-4)
    print(f"params {sum(q.numel() for q in model.parameters())}, collocation points {len(res)}")

    vx, vt = np.linspace(-1, 1, 41), np.linspace(0, 1, 21)
    u_ref = reference_solution(args.c, args.nu, vx, vt)
    vxx, vtt = np.meshgrid(vx, vt)
    x_val, t_val = to_xt(np.stack([vxx.ravel(), vtt.ravel()], axis=1), args.num_step, args.step)

    def validate():
        with torch.no_grad():
            pred = model(x_val, t_val)[:, 0, 0].numpy().reshape(u_ref.shape)
        l1 = np.abs(u_ref - pred).sum() / np.abs(u_ref).sum()
        l2 = np.sqrt(((u_ref - pred) ** 2).sum() / (u_ref ** 2).sum())
        return l1, l2

    best, best_state, t0 = float("inf"), None, time.time()
    for i in range(args.iters):
        u = model(x_res, t_res)
        u_t = torch.autograd.grad(u, t_res, grad_outputs=torch.ones_like(u), retain_graph=True, create_graph=True)[0]
        u_x = torch.autograd.grad(u, x_res, grad_outputs=torch.ones_like(u), retain_graph=True, create_graph=True)[0]
        u_xx = torch.autograd.grad(u_x, x_res, grad_outputs=torch.ones_like(u_x), retain_graph=True, create_graph=True)[0]
        loss_res = torch.mean((u_t + args.c * u_x - args.nu * u_xx) ** 2)
        u_left, u_right = model(x_bnd, t_bnd)[:, 0].chunk(2)
        loss_bc = torch.mean((u_left - u_right) ** 2)
        loss_ic = torch.mean((model(x_ini, t_ini)[:, 0] - u_ini) ** 2)
        loss = loss_res + 5 * loss_bc + 5 * loss_ic
        optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optim.step()
        sched.step()
        if loss.item() < best:
            best, best_state = loss.item(), copy.deepcopy(model.state_dict())
        if i % 50 == 0 or i == args.iters - 1:
            l1, l2 = validate()
            print(f"iter {i:4d} loss {loss.item():.5f} (res {loss_res.item():.5f} bc {loss_bc.item():.5f} "
                  f"ic {loss_ic.item():.5f}) relative l1 {l1:.4f} l2 {l2:.4f} [{time.time() - t0:.1f}s]")

    model.load_state_dict(best_state)
    l1, l2 = validate()
    print(f"train loss {best:.5f}")
    print(f"relative L1 error: {l1:.4f}  relative L2 error: {l2:.4f}")


if __name__ == "__main__":
    main()
