import argparse
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

parser = argparse.ArgumentParser()
parser.add_argument("--n_epochs", type=int, default=22, help="number of epochs of training")
parser.add_argument("--batch_size", type=int, default=256, help="size of the batches")
parser.add_argument("--lr", type=float, default=5e-4, help="learning rate")
parser.add_argument("--latent_dim", type=int, default=16, help="dimensionality of the latent space")
parser.add_argument("--length", type=int, default=96, help="number of points of a curve")
parser.add_argument("--n_critic", type=int, default=4, help="number of training steps for discriminator per iter")
parser.add_argument("--clip_value", type=float, default=0.05, help="lower and upper clip value for disc. weights")
parser.add_argument("--seed", type=int, default=5)
opt = parser.parse_args()
print(opt)


def load_curves(n, length, seed):
    """daily load curves in [-1, 1]: a base level, a morning and an evening peak"""
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 24, length)[None]
    u = lambda a, b: rng.uniform(a, b, (n, 1))
    curves = u(-0.7, -0.5) + u(0.4, 0.8) * np.exp(-((t - u(7, 9)) / 1.8) ** 2) \
        + u(0.7, 1.2) * np.exp(-((t - u(18, 20)) / 2.4) ** 2)
    curves += 0.02 * rng.standard_normal((n, length))
    return torch.from_numpy(curves.clip(-1, 1)).float()


class Generator(nn.Module):
    def __init__(self):
        super(Generator, self).__init__()

        def block(in_feat, out_feat, normalize=True):
            layers = [nn.Linear(in_feat, out_feat)]
            if normalize:
                layers.append(nn.BatchNorm1d(out_feat))
            layers.append(nn.LeakyReLU(0.2, inplace=True))
            return layers

        self.model = nn.Sequential(
            *block(opt.latent_dim, 256, normalize=False),
            *block(256, 512),
            *block(512, 512),
            nn.Linear(512, opt.length),
            nn.Tanh()
        )

    def forward(self, z):
        return self.model(z)


class Discriminator(nn.Module):
    def __init__(self):
        super(Discriminator, self).__init__()
        self.model = nn.Sequential(
            nn.Linear(opt.length, 512),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Linear(512, 256),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Linear(256, 1),
        )

    def forward(self, curve):
        return self.model(curve)


def energy_distance(a, b):
    """distance between two samples of curves, 0 for equal distributions"""
    return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


@torch.no_grad()
def evaluate(generator, held_out):
    generator.eval()
    fake = generator(torch.randn(len(held_out), opt.latent_dim))
    generator.train()
    return energy_distance(fake, held_out), fake.mean().item(), fake.std(dim=0).mean().item()


def main():
    torch.manual_seed(opt.seed)
    dataloader = DataLoader(TensorDataset(load_curves(12800, opt.length, opt.seed)),
                            batch_size=opt.batch_size, shuffle=True, drop_last=True)
    held_out = load_curves(800, opt.length, opt.seed + 1)
    print("held-out curves: mean %.3f, std over days %.3f" % (held_out.mean().item(), held_out.std(dim=0).mean().item()))

    # Initialize generator and discriminator
    generator = Generator()
    discriminator = Discriminator()

    # Optimizers
    optimizer_G = torch.optim.RMSprop(generator.parameters(), lr=opt.lr)
    optimizer_D = torch.optim.RMSprop(discriminator.parameters(), lr=opt.lr)

    batches_done = 0
    for epoch in range(opt.n_epochs):
        start, d_losses, g_losses = time.time(), [], []
        for i, (real_curves,) in enumerate(dataloader):
            # ---------------------
            #  Train Discriminator
            # ---------------------
            optimizer_D.zero_grad()

            # Sample noise as generator input
            z = torch.randn(real_curves.shape[0], opt.latent_dim)

            # Generate a batch of curves
            fake_curves = generator(z).detach()
            # Adversarial loss
            loss_D = -torch.mean(discriminator(real_curves)) + torch.mean(discriminator(fake_curves))

            loss_D.backward()
            optimizer_D.step()
            d_losses.append(loss_D.item())

            # Clip weights of discriminator
            for p in discriminator.parameters():
                p.data.clamp_(-opt.clip_value, opt.clip_value)

            # Train the generator every n_critic iterations
            if i % opt.n_critic == 0:
                # -----------------
                #  Train Generator
                # -----------------
                optimizer_G.zero_grad()

                # Generate a batch of curves
                gen_curves = generator(z)
                # Adversarial loss
                loss_G = -torch.mean(discriminator(gen_curves))

                loss_G.backward()
                optimizer_G.step()
                g_losses.append(loss_G.item())
            batches_done += 1

        dist, mean, std = evaluate(generator, held_out)
        print("[Epoch %d/%d] [Batch %d] [D loss: %f] [G loss: %f] energy distance %.4f, mean %.3f, std over days %.3f (%.1fs)" % (
            epoch, opt.n_epochs, batches_done, np.mean(d_losses), np.mean(g_losses), dist, mean, std, time.time() - start))


if __name__ == "__main__":
    main()
