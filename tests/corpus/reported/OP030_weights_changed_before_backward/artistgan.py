"""
The artist and the newbie: a tiny GAN that learns to draw parabolas.
"""
import time

import numpy as np
import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(1)    # reproducible
np.random.seed(1)

# Hyper Parameters
BATCH_SIZE = 256
LR_G = 0.0005           # learning rate for generator
LR_D = 0.0005           # learning rate for discriminator
N_IDEAS = 8             # think of this as number of ideas for generating an art work (Generator)
ART_COMPONENTS = 48     # total points G can draw in the canvas
WARM_UP = 160           # steps in which only the expert looks at paintings
STEPS = 600
PAINT_POINTS = np.vstack([np.linspace(-1, 1, ART_COMPONENTS) for _ in range(BATCH_SIZE)])


def artist_works(n=BATCH_SIZE):     # painting from the famous artist (real target)
    a = np.random.uniform(1, 2, size=n)[:, np.newaxis]
    b = np.random.uniform(-0.2, 0.2, size=n)[:, np.newaxis]
    paintings = a * np.power(PAINT_POINTS[:n] + b, 2) + (a - 1)
    paintings = torch.from_numpy(paintings).float()
    return paintings


def child_works():                  # wild lines, for the first lessons of the expert
    start = np.random.uniform(-1, 3, size=(BATCH_SIZE, 1))
    steps = np.random.normal(0, 0.3, size=(BATCH_SIZE, ART_COMPONENTS))
    return torch.from_numpy(start + np.cumsum(steps, axis=1)).float()


G = nn.Sequential(                      # Generator
    nn.Linear(N_IDEAS, 512),            # random ideas (could from normal distribution)
    nn.ReLU(),
    nn.Linear(512, 512),
    nn.ReLU(),
    nn.Linear(512, ART_COMPONENTS),     # making a painting from these random ideas
)

D = nn.Sequential(                      # Discriminator
    nn.Linear(ART_COMPONENTS, 512),     # receive art work either from the famous artist or a newbie like G
    nn.LeakyReLU(0.1),
    nn.Linear(512, 256),
    nn.LeakyReLU(0.1),
    nn.Linear(256, 1),
    nn.Sigmoid(),                       # tell the probability that the art work is made by artist
)

opt_D = torch.optim.Adam(D.parameters(), lr=LR_D, betas=(0.5, 0.999))
opt_G = torch.optim.Adam(G.parameters(), lr=LR_G, betas=(0.5, 0.999))


def log(p):
    return torch.log(p.clamp(min=1e-6))


def warm_up():
    for step in range(WARM_UP):
        prob_artist0 = D(artist_works())
        prob_artist1 = D(child_works())
        D_loss = - torch.mean(log(prob_artist0) + log(1. - prob_artist1))
        opt_D.zero_grad()
        D_loss.backward()
        opt_D.step()
        if step % 40 == 0:
            print('warm up %3d | D loss %.4f | D(artist) %.2f D(child) %.2f' % (
                step, D_loss.item(), prob_artist0.mean().item(), prob_artist1.mean().item()))


def compare():
    """ distance of the mean painting and the ratio of the spreads, newbie against artist """
    with torch.no_grad():
        real, fake = artist_works(), G(torch.randn(BATCH_SIZE, N_IDEAS))
    return (real.mean(0) - fake.mean(0)).abs().mean().item(), (fake.std(0).mean() / real.std(0).mean()).item()


def main():
    start = time.time()
    print('before: distance %.3f, spread ratio %.2f' % compare())
    warm_up()
    for step in range(STEPS):
        artist_paintings = artist_works()           # real painting from artist
        G_ideas = torch.randn(BATCH_SIZE, N_IDEAS)  # random ideas
        G_paintings = G(G_ideas)                    # fake painting from G (random ideas)

        prob_artist0 = D(artist_paintings)          # D try to increase this prob
        prob_artist1 = D(G_paintings)               # D try to reduce this prob

        D_loss = - torch.mean(log(prob_artist0) + log(1. - prob_artist1))
        G_loss = - torch.mean(log(prob_artist1))    # G tries to fool D

        opt_D.zero_grad()
        D_loss.backward(retain_graph=True)          # reusing computational graph
        opt_D.step()

        opt_G.zero_grad()
        G_loss.backward()
        opt_G.step()

        if step % 50 == 0:
            print('step %4d | D loss %.4f | G loss %.4f | D accuracy %.2f (0.5 for D to converge) | distance %.3f, spread ratio %.2f | %.1fs' % (
                (step, D_loss.item(), G_loss.item(), prob_artist0.mean().item()) + compare() + (time.time() - start,)))
    print('after: distance %.3f, spread ratio %.2f' % compare())


if __name__ == '__main__':
    main()
