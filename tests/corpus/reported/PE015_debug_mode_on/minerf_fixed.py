"""A tiny NeRF on a synthetic scene of coloured spheres."""
import argparse
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

NEAR, FAR = 2.0, 6.0
SPHERES = [
    # centre, radius, colour
    ((0.0, 0.0, 0.0), 0.75, (0.90, 0.25, 0.20)),
    ((0.8, 0.5, 0.3), 0.45, (0.20, 0.70, 0.30)),
    ((-0.7, -0.4, 0.6), 0.50, (0.25, 0.35, 0.90)),
    ((0.1, -0.8, -0.6), 0.40, (0.95, 0.80, 0.20)),
]


# ---------------------------------------------------------------- data

def camera_pose(theta, phi, radius=4.0):
    eye = radius * np.array([math.cos(phi) * math.sin(theta), math.sin(phi), math.cos(phi) * math.cos(theta)])
    forward = -eye / np.linalg.norm(eye)
    right = np.cross(forward, [0.0, 1.0, 0.0])
    right /= np.linalg.norm(right)
    up = np.cross(right, forward)
    return np.stack([right, up, -forward], 1), eye


def get_rays(h, w, focal, rot, eye):
    j, i = np.meshgrid(np.arange(h), np.arange(w), indexing="ij")
    dirs = np.stack([(i - w / 2 + 0.5) / focal, -(j - h / 2 + 0.5) / focal, -np.ones_like(i, float)], -1)
    d = dirs @ rot.T
    return np.broadcast_to(eye, d.shape).reshape(-1, 3), d.reshape(-1, 3)


def trace(o, d):
    """Reference image: nearest sphere with a fixed light from above, white background."""
    dn = d / np.linalg.norm(d, axis=1, keepdims=True)
    best = np.full(len(o), np.inf)
    rgb = np.ones((len(o), 3))
    for c, r, col in SPHERES:
        oc = o - np.array(c)
        b = (oc * dn).sum(1)
        disc = b ** 2 - (oc ** 2).sum(1) + r ** 2
        t = -b - np.sqrt(np.maximum(disc, 0))
        hit = (disc > 0) & (t > 0) & (t < best)
        n = (o + t[:, None] * dn - np.array(c)) / r
        shade = 0.65 + 0.35 * np.clip(n[:, 1], -1, 1)
        rgb[hit] = (np.array(col)[None] * shade[:, None])[hit]
        best[hit] = t[hit]
    return rgb


def make_views(n, size, seed):
    rng = np.random.default_rng(seed)
    views = []
    for _ in range(n):
        rot, eye = camera_pose(rng.uniform(0, 2 * math.pi), rng.uniform(-0.3, 0.8))
        o, d = get_rays(size, size, 1.4 * size, rot, eye)
        views.append([torch.tensor(a, dtype=torch.float32) for a in (o, d, trace(o, d))])
    return views


# ---------------------------------------------------------------- model

class Embedder:
    def __init__(self, n_freqs):
        self.freqs = 2.0 ** torch.arange(n_freqs)
        self.out_dim = 3 + 6 * n_freqs

    def __call__(self, x):
        xf = (x[..., None, :] * self.freqs[:, None]).flatten(-2)
        return torch.cat([x, torch.sin(xf), torch.cos(xf)], -1)


class NeRF(nn.Module):
    def __init__(self, depth=4, width=64, n_freqs=5):
        super().__init__()
        self.embed = Embedder(n_freqs)
        dims = [self.embed.out_dim] + [width] * depth
        self.pts_linears = nn.ModuleList([nn.Linear(a, b) for a, b in zip(dims[:-1], dims[1:])])
        self.alpha_linear = nn.Linear(width, 1)
        self.rgb_linear = nn.Linear(width, 3)

    def forward(self, pts):
        h = self.embed(pts)
        for layer in self.pts_linears:
            h = F.relu(layer(h))
        return torch.sigmoid(self.rgb_linear(h)), F.softplus(self.alpha_linear(h)[..., 0] - 1.0)


def render_rays(model, rays_o, rays_d, n_samples, perturb):
    t = torch.linspace(0.0, 1.0, n_samples)
    z = (NEAR + (FAR - NEAR) * t).expand(len(rays_o), n_samples)
    if perturb:
        z = z + torch.rand_like(z) * (FAR - NEAR) / n_samples
    pts = rays_o[:, None] + rays_d[:, None] * z[..., None]
    rgb, sigma = model(pts)
    dists = torch.cat([z[:, 1:] - z[:, :-1], torch.full((len(z), 1), 0.2)], -1) * rays_d.norm(dim=-1, keepdim=True)
    alpha = 1.0 - torch.exp(-sigma * dists)
    trans = torch.cumprod(torch.cat([torch.ones(len(z), 1), 1.0 - alpha + 1e-10], -1), -1)[:, :-1]
    weights = alpha * trans
    return (weights[..., None] * rgb).sum(1) + (1.0 - weights.sum(1, keepdim=True))


@torch.no_grad()
def render_views(model, views, n_samples, chunk=1024):
    model.eval()
    mse = []
    for o, d, rgb in views:
        out = torch.cat([render_rays(model, o[i:i + chunk], d[i:i + chunk], n_samples, False)
                         for i in range(0, len(o), chunk)])
        mse.append(F.mse_loss(out, rgb).item())
    model.train()
    return float(np.mean(mse))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--n_iters", type=int, default=1000)
    p.add_argument("--i_test", type=int, default=100)
    p.add_argument("--n_rand", type=int, default=192)
    p.add_argument("--n_samples", type=int, default=32)
    p.add_argument("--size", type=int, default=40)
    p.add_argument("--lrate", type=float, default=3e-3)
    p.add_argument("--lrate_final", type=float, default=3e-4)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)

    train_views, test_views = make_views(24, args.size, 1), make_views(3, args.size, 2)
    rays_o, rays_d, target = (torch.cat(a) for a in zip(*train_views))
    model = NeRF()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lrate)
    gamma = (args.lrate_final / args.lrate) ** (1.0 / args.n_iters)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma)

    order, pos = torch.randperm(len(rays_o)), 0
    running, t0 = 0.0, time.time()
    for it in range(1, args.n_iters + 1):
        if pos + args.n_rand > len(order):
            order, pos = torch.randperm(len(rays_o)), 0
        sel = order[pos:pos + args.n_rand]
        pos += args.n_rand
        rgb = render_rays(model, rays_o[sel], rays_d[sel], args.n_samples, perturb=True)
        loss = F.mse_loss(rgb, target[sel])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        running += loss.item()
        if it % args.i_test == 0:
            dt = time.time() - t0
            mse = render_views(model, test_views, args.n_samples)
            print("[TRAIN] iter %d loss %.5f psnr %.2f | test psnr %.2f | %.1f it/s"
                  % (it, running / args.i_test, -10 * math.log10(running / args.i_test), -10 * math.log10(mse),
                     args.i_test / dt), flush=True)
            running, t0 = 0.0, time.time()


if __name__ == "__main__":
    main()
