import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)

# Misc
img2mse = lambda x, y: torch.mean((x - y) ** 2)
mse2psnr = lambda x: -10. * torch.log(x) / np.log(10.)


def config_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("--netdepth", type=int, default=4, help='layers in network')
    parser.add_argument("--netwidth", type=int, default=64, help='channels per layer')
    parser.add_argument("--N_rand", type=int, default=160, help='batch size (number of random rays per gradient step)')
    parser.add_argument("--N_samples", type=int, default=24, help='number of samples per ray')
    parser.add_argument("--N_iters", type=int, default=900)
    parser.add_argument("--lrate", type=float, default=5e-3, help='learning rate')
    parser.add_argument("--lrate_decay", type=int, default=1000, help='exponential learning rate decay (in steps)')
    parser.add_argument("--perturb", type=float, default=1., help='set to 0. for no jitter, 1. for jitter')
    parser.add_argument("--multires", type=int, default=5, help='log2 of max freq for positional encoding (3D location)')
    parser.add_argument("--multires_views", type=int, default=2, help='log2 of max freq for positional encoding (2D direction)')
    parser.add_argument("--i_print", type=int, default=50)
    parser.add_argument("--i_testset", type=int, default=225)
    parser.add_argument("--seed", type=int, default=0)
    return parser


# Positional encoding
class Embedder:
    def __init__(self, multires):
        self.freq_bands = 2. ** torch.linspace(0., multires - 1, multires)
        self.out_dim = 3 + 3 * 2 * multires

    def embed(self, x):
        angles = x[..., None, :] * self.freq_bands[:, None]
        return torch.cat([x, torch.sin(angles).flatten(-2), torch.cos(angles).flatten(-2)], -1)


# Model
class NeRF(nn.Module):
    def __init__(self, D, W, input_ch, input_ch_views, skip=2):
        super(NeRF, self).__init__()
        self.skip = skip
        self.pts_linears = nn.ModuleList(
            [nn.Linear(input_ch, W)] + [nn.Linear(W + (input_ch if i == skip else 0), W) for i in range(1, D)])
        self.alpha_linear = nn.Linear(W, 1)
        self.feature_linear = nn.Linear(W, W)
        self.views_linear = nn.Linear(input_ch_views + W, W // 2)
        self.rgb_linear = nn.Linear(W // 2, 3)

    def forward(self, input_pts, input_views):
        h = input_pts
        for i, l in enumerate(self.pts_linears):
            if i == self.skip:
                h = torch.cat([input_pts, h], -1)
            h = F.relu(l(h))
        alpha = self.alpha_linear(h)
        h = torch.cat([self.feature_linear(h), input_views], -1)
        return torch.cat([self.rgb_linear(F.relu(self.views_linear(h))), alpha], -1)


# Ray helpers
def get_rays(H, W, focal, c2w):
    j, i = torch.meshgrid(torch.arange(H).float(), torch.arange(W).float(), indexing='ij')
    dirs = torch.stack([(i - W * .5 + .5) / focal, -(j - H * .5 + .5) / focal, -torch.ones_like(i)], -1)
    rays_d = torch.sum(dirs[..., None, :] * c2w[:3, :3], -1)
    return c2w[:3, -1].expand(rays_d.shape), rays_d


def pose_spherical(theta, phi, radius):
    ct, st, cp, sp = np.cos(theta), np.sin(theta), np.cos(phi), np.sin(phi)
    back = np.array([st * cp, sp, ct * cp])
    right = np.array([ct, 0., -st])
    up = np.cross(back, right)
    return torch.tensor(np.stack([right, up, back, radius * back], 1), dtype=torch.float32)


def scene(pts):
    """ ground truth: three coloured balls on a plate """
    balls = [((-.45, 0., .1), .38, (.9, .2, .15)), ((.4, .05, .3), .3, (.15, .7, .3)), ((.1, .2, -.45), .34, (.2, .35, .9))]
    sigma, rgb = torch.zeros(pts.shape[:-1]), torch.zeros(pts.shape)
    for centre, radius, colour in balls:
        inside = torch.sigmoid(25 * (radius - (pts - torch.tensor(centre)).norm(dim=-1))) * 12
        shade = (0.75 + 0.4 * pts[..., 1:2]).clamp(0, 1)
        sigma, rgb = sigma + inside, rgb + inside[..., None] * torch.tensor(colour) * shade
    plate = torch.sigmoid(25 * (.08 - (pts[..., 1] + .45).abs())) * (pts[..., [0, 2]].norm(dim=-1) < .95) * 10
    check = ((torch.sin(6 * pts[..., 0]) * torch.sin(6 * pts[..., 2])) > 0).float()[..., None]
    sigma, rgb = sigma + plate, rgb + plate[..., None] * (.35 + .4 * check)
    return rgb / (sigma[..., None] + 1e-6), sigma


def composite(rgb, sigma, z_vals, rays_d):
    dists = z_vals[..., 1:] - z_vals[..., :-1]
    dists = torch.cat([dists, dists[..., -1:]], -1) * rays_d.norm(dim=-1, keepdim=True)
    alpha = 1. - torch.exp(-sigma * dists)
    T = torch.cumprod(torch.cat([torch.ones_like(alpha[..., :1]), 1. - alpha + 1e-10], -1), -1)[..., :-1]
    weights = alpha * T
    # white background
    return torch.sum(weights[..., None] * rgb, -2) + (1. - weights.sum(-1, keepdim=True))


def sample_z(n, N_samples, near, far, perturb):
    z_vals = torch.linspace(near, far, N_samples).expand(n, N_samples)
    if perturb > 0.:
        mids = .5 * (z_vals[..., 1:] + z_vals[..., :-1])
        upper, lower = torch.cat([mids, z_vals[..., -1:]], -1), torch.cat([z_vals[..., :1], mids], -1)
        z_vals = lower + (upper - lower) * torch.rand(n, N_samples)
    return z_vals


def render_rays(model, embed, embed_views, rays_o, rays_d, args, perturb):
    z_vals = sample_z(len(rays_o), args.N_samples, 1.2, 4.2, perturb)
    pts = rays_o[:, None, :] + rays_d[:, None, :] * z_vals[..., None]
    viewdirs = F.normalize(rays_d, dim=-1)[:, None].expand(pts.shape)
    raw = model(embed.embed(pts), embed_views.embed(viewdirs))
    return composite(torch.sigmoid(raw[..., :3]), F.softplus(raw[..., 3] - 1.), z_vals, rays_d)


def make_views(n, H, W, focal, seed):
    rng = np.random.default_rng(seed)
    images, rays = [], []
    with torch.no_grad():
        for _ in range(n):
            pose = pose_spherical(rng.uniform(0, 2 * np.pi), rng.uniform(.15, .9), 2.7)
            rays_o, rays_d = (r.reshape(-1, 3) for r in get_rays(H, W, focal, pose))
            z = sample_z(H * W, 128, 1.2, 4.2, 0.)
            images.append(composite(*scene(rays_o[:, None] + rays_d[:, None] * z[..., None]), z, rays_d))
            rays.append(torch.stack([rays_o, rays_d]))
    return torch.stack(images), torch.stack(rays)


def train():
    args = config_parser().parse_args()
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    H = W = 32
    focal = 32.
    images, rays = make_views(20, H, W, focal, args.seed)
    test_images, test_rays = make_views(2, H, W, focal, args.seed + 1)

    embed, embed_views = Embedder(args.multires), Embedder(args.multires_views)
    model = NeRF(args.netdepth, args.netwidth, embed.out_dim, embed_views.out_dim)
    optimizer = torch.optim.Adam(params=model.parameters(), lr=args.lrate, betas=(0.9, 0.999))

    start = time.time()
    for i in range(1, args.N_iters + 1):
        # Random rays over all images
        k, p = rng.integers(0, len(images), args.N_rand), rng.integers(0, H * W, args.N_rand)
        rgb = render_rays(model, embed, embed_views, rays[k, 0, p], rays[k, 1, p], args, args.perturb)

        optimizer.zero_grad()
        loss = img2mse(rgb, images[k, p])
        loss.backward()
        optimizer.step()

        # update learning rate
        decay_rate = 0.1
        new_lrate = args.lrate * (decay_rate ** (i / args.lrate_decay))
        for param_group in optimizer.param_groups:
            param_group['lr'] = new_lrate

        if i % args.i_print == 0:
            print(f"[TRAIN] Iter: {i} Loss: {loss.item():.5f}  PSNR: {mse2psnr(loss.detach()).item():.2f}  {i / (time.time() - start):.1f} it/s")
        if i % args.i_testset == 0:
            with torch.no_grad():
                test_loss = sum(img2mse(render_rays(model, embed, embed_views, r[0], r[1], args, 0.), im)
                                for im, r in zip(test_images, test_rays)) / len(test_images)
            print(f"[TEST] Iter: {i}  PSNR: {mse2psnr(test_loss).item():.2f}")


if __name__ == '__main__':
    train()
