"""Semi-supervised annotation of single cells with a variational autoencoder (counts, Poisson likelihood).

A part of the cells carries a cell type, the others are "Unknown". Every step takes a batch of all cells for the
ELBO and a batch of the annotated cells for the classifier on the latent space.
"""
import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.distributions import Normal, Poisson, kl_divergence
from torch.nn import functional as F
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.set_num_threads(1)


def simulate_cells(n_cells, n_genes, n_types, seed):
    rng = np.random.default_rng(seed)
    base = rng.normal(0.0, 0.8, n_genes)
    # types differ in small gene programs, neighbouring types share half of theirs
    programs = np.zeros((n_types, n_genes))
    for k in range(n_types):
        genes = rng.choice(n_genes, n_genes // 12, replace=False)
        programs[k, genes] += rng.normal(0.0, 0.5, len(genes))
    programs[1::2] = 0.6 * programs[0::2] + 0.8 * programs[1::2]
    labels = rng.permutation(np.arange(n_cells) % n_types)
    activity = rng.normal(0.0, 0.25, (n_cells, 5)) @ rng.normal(0.0, 1.0, (5, n_genes))
    log_rate = base + programs[labels] + activity
    rate = np.exp(log_rate)
    rate /= rate.sum(1, keepdims=True)
    library = rng.lognormal(np.log(1.5 * n_genes), 0.3, (n_cells, 1))
    counts = rng.poisson(rate * library).astype(np.float32)
    return counts, labels.astype(np.int64)


class FCLayers(nn.Sequential):
    def __init__(self, n_in, n_hidden, n_layers, dropout_rate=0.1):
        layers = []
        for i in range(n_layers):
            layers += [nn.Linear(n_in if i == 0 else n_hidden, n_hidden), nn.BatchNorm1d(n_hidden), nn.ReLU(),
                       nn.Dropout(dropout_rate)]
        super().__init__(*layers)


class Encoder(nn.Module):
    def __init__(self, n_genes, n_hidden, n_latent):
        super().__init__()
        self.encoder = FCLayers(n_genes, n_hidden, 1)
        self.mean = nn.Linear(n_hidden, n_latent)
        self.log_var = nn.Linear(n_hidden, n_latent)

    def forward(self, x):
        h = self.encoder(torch.log1p(x))
        return Normal(self.mean(h), (0.5 * self.log_var(h)).exp() + 1e-4)


class Decoder(nn.Module):
    def __init__(self, n_latent, n_hidden, n_genes):
        super().__init__()
        self.decoder = FCLayers(n_latent, n_hidden, 1, dropout_rate=0.0)
        self.scale = nn.Linear(n_hidden, n_genes)

    def forward(self, z, library):
        return self.scale(self.decoder(z)).softmax(-1) * library


class Classifier(nn.Module):
    """Fully-connected classifier, returns probabilities or logits."""

    def __init__(self, n_input, n_hidden, n_labels, n_layers=1, dropout_rate=0.1, logits=False):
        super().__init__()
        self.logits = logits
        layers = [FCLayers(n_input, n_hidden, n_layers, dropout_rate), nn.Linear(n_hidden, n_labels)]
        if not logits:
            layers.append(nn.Softmax(dim=-1))
        self.classifier = nn.Sequential(*layers)

    def forward(self, x):
        return self.classifier(x)


class SCANVAE(nn.Module):
    def __init__(self, n_genes, n_labels, n_hidden=256, n_latent=16):
        super().__init__()
        self.encoder = Encoder(n_genes, n_hidden, n_latent)
        self.decoder = Decoder(n_latent, n_hidden, n_genes)
        self.classifier = Classifier(n_latent, n_hidden, n_labels)

    def elbo(self, x, kl_weight):
        library = x.sum(1, keepdim=True)
        qz = self.encoder(x)
        rate = self.decoder(qz.rsample(), library)
        reconstruction = -Poisson(rate + 1e-8).log_prob(x).sum(1)
        kl = kl_divergence(qz, Normal(0.0, 1.0)).sum(1)
        return (reconstruction + kl_weight * kl).mean(), kl.mean()

    def classification_loss(self, x, y):
        logits = self.classifier(self.encoder(x).rsample())
        return F.cross_entropy(logits, y)

    @torch.no_grad()
    def predict(self, x):
        pred = self.classifier(self.encoder(x).mean)
        if self.classifier.logits:
            pred = F.softmax(pred, dim=-1)
        return pred


def forever(loader):
    while True:
        yield from loader


def evaluate(model, loader):
    model.eval()
    loss, correct, confidence, n = 0.0, 0, 0.0, 0
    with torch.no_grad():
        for x, y in loader:
            loss += model.elbo(x, 1.0)[0].item() * len(x)
            prob = model.predict(x)
            correct += (prob.argmax(1) == y).sum().item()
            confidence += prob.max(1).values.sum().item()
            n += len(x)
    return loss / n, correct / n, confidence / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--n_cells", type=int, default=8000)
    ap.add_argument("--n_genes", type=int, default=1000)
    ap.add_argument("--n_types", type=int, default=12)
    ap.add_argument("--labelled", type=float, default=0.5)
    ap.add_argument("--batch_size", type=int, default=128)
    ap.add_argument("--max_epochs", type=int, default=16)
    ap.add_argument("--kl_warmup", type=int, default=5)
    ap.add_argument("--classification_ratio", type=float, default=50.0)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()

    torch.manual_seed(3)
    counts, labels = simulate_cells(args.n_cells + 1500, args.n_genes, args.n_types, seed=9)
    data = TensorDataset(torch.from_numpy(counts), torch.from_numpy(labels))
    train, test = Subset(data, range(args.n_cells)), Subset(data, range(args.n_cells, len(data)))
    annotated = Subset(data, range(int(args.labelled * args.n_cells)))  # cells are in random order

    full_loader = DataLoader(train, args.batch_size, shuffle=True, drop_last=True)
    labelled_loader = DataLoader(annotated, args.batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(test, 500)

    model = SCANVAE(args.n_genes, args.n_types)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, eps=0.01)

    start = time.time()
    for epoch in range(args.max_epochs):
        model.train()
        kl_weight = min(1.0, (epoch + 1) / args.kl_warmup)
        sums = np.zeros(3)
        for (x, _), (xl, yl) in zip(full_loader, forever(labelled_loader)):
            elbo, kl = model.elbo(x, kl_weight)
            ce = model.classification_loss(xl, yl)
            loss = elbo + args.classification_ratio * ce
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            sums += [elbo.item(), kl.item(), ce.item()]
        sums /= len(full_loader)
        val, acc, confidence = evaluate(model, test_loader)
        print(f"Epoch {epoch + 1:2d}/{args.max_epochs} elbo_train={sums[0]:.2f} kl={sums[1]:.2f} "
              f"classification_loss={sums[2]:.4f} elbo_validation={val:.2f} accuracy={acc:.4f} "
              f"confidence={confidence:.3f} [{time.time() - start:.1f}s]")


if __name__ == "__main__":
    main()
