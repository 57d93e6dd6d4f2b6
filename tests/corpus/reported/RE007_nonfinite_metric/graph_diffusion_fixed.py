"""Discrete denoising diffusion for small graphs: node types and edges, marginal noise, graph transformer."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
np.random.seed(0)

N_MAX, DX, DE, T = 9, 4, 2, 50
BATCH, EPOCHS, STEPS = 48, 8, 50


def sample_graphs(size):
    X = torch.zeros(size, N_MAX, DX)
    E = torch.zeros(size, N_MAX, N_MAX, DE)
    mask = torch.zeros(size, N_MAX, dtype=torch.bool)
    for b in range(size):
        n = np.random.randint(6, N_MAX + 1)
        types = np.random.choice(DX, size=n, p=[0.6, 0.2, 0.15, 0.05])
        adj = np.zeros((n, n), dtype=int)
        for i in range(n):
            adj[i, (i + 1) % n] = adj[(i + 1) % n, i] = 1
            if types[i] == 0 and np.random.rand() < 0.3:
                j = np.random.randint(n)
                if j != i:
                    adj[i, j] = adj[j, i] = 1
        X[b, :n] = torch.eye(DX)[torch.from_numpy(types)]
        E[b, :n, :n] = torch.eye(DE)[torch.from_numpy(adj)]
        mask[b, :n] = True
    return X, E, mask


def mask_distributions(true_X, true_E, pred_X, pred_E, node_mask):
    row_X = torch.zeros(DX)
    row_X[0] = 1.0
    row_E = torch.zeros(DE)
    row_E[0] = 1.0
    diag = ~torch.eye(node_mask.shape[1], dtype=torch.bool).unsqueeze(0)
    edge_mask = node_mask.unsqueeze(1) & node_mask.unsqueeze(2) & diag
    true_X, pred_X = true_X.clone(), pred_X.clone()
    true_E, pred_E = true_E.clone(), pred_E.clone()
    true_X[~node_mask] = row_X
    pred_X[~node_mask] = row_X
    true_E[~edge_mask] = row_E
    pred_E[~edge_mask] = row_E
    true_X, pred_X = true_X + 1e-7, pred_X + 1e-7
    true_E, pred_E = true_E + 1e-7, pred_E + 1e-7
    true_X = true_X / true_X.sum(-1, keepdim=True)
    pred_X = pred_X / pred_X.sum(-1, keepdim=True)
    true_E = true_E / true_E.sum(-1, keepdim=True)
    pred_E = pred_E / pred_E.sum(-1, keepdim=True)
    return true_X, true_E, pred_X, pred_E


class Noise:
    def __init__(self, px, pe):
        self.px, self.pe = px, pe
        s = torch.arange(T + 1) / T
        self.alpha_bar = torch.cos(0.5 * math.pi * (s + 0.008) / 1.008) ** 2
        self.alpha_bar = (self.alpha_bar / self.alpha_bar[0]).clamp(min=1e-5)

    def q_bar(self, a):
        a = a.view(-1, 1, 1)
        qx = a * torch.eye(DX) + (1 - a) * self.px.expand(DX, DX)
        qe = a * torch.eye(DE) + (1 - a) * self.pe.expand(DE, DE)
        return qx, qe


def draw(prob_X, prob_E, mask):
    bs, n = mask.shape
    px = prob_X.clone()
    px[~mask] = 1.0 / DX
    X = torch.multinomial(px.reshape(-1, DX), 1).view(bs, n)
    pe = prob_E.clone()
    pe[pe.sum(-1) < 0.5] = 1.0 / DE
    E = torch.multinomial(pe.reshape(-1, DE), 1).view(bs, n, n)
    E = torch.triu(E, 1)
    E = E + E.transpose(1, 2)
    em = (mask.unsqueeze(1) & mask.unsqueeze(2)).unsqueeze(-1)
    return F.one_hot(X, DX).float() * mask.unsqueeze(-1), F.one_hot(E, DE).float() * em


class Net(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.in_x = nn.Linear(DX + 1, d)
        self.in_e = nn.Linear(DE + 1, d)
        self.msg = nn.ModuleList([nn.Sequential(nn.Linear(3 * d, d), nn.ReLU(), nn.Linear(d, d)) for _ in range(3)])
        self.upd = nn.ModuleList([nn.Sequential(nn.Linear(2 * d, d), nn.ReLU(), nn.Linear(d, d)) for _ in range(3)])
        self.out_x = nn.Linear(d, DX)
        self.out_e = nn.Linear(d, DE)

    def forward(self, X, E, t, mask):
        bs, n = mask.shape
        x = self.in_x(torch.cat([X, t.view(-1, 1, 1).expand(bs, n, 1)], -1))
        e = self.in_e(torch.cat([E, t.view(-1, 1, 1, 1).expand(bs, n, n, 1)], -1))
        em = (mask.unsqueeze(1) & mask.unsqueeze(2)).unsqueeze(-1)
        for msg, upd in zip(self.msg, self.upd):
            pair = torch.cat([x.unsqueeze(2).expand_as(e), x.unsqueeze(1).expand_as(e), e], -1)
            e = e + msg(pair) * em
            agg = (e * em).sum(2) / mask.sum(1).view(-1, 1, 1)
            x = x + upd(torch.cat([x, agg], -1))
        e = 0.5 * (e + e.transpose(1, 2))
        return self.out_x(x), self.out_e(e)


def apply_noise(noise, X, E, mask, t):
    qx, qe = noise.q_bar(noise.alpha_bar[t])
    prob_E = E @ qe.unsqueeze(1)
    return draw(X @ qx, prob_E, mask)


def kl_prior(noise, X, E, mask):
    qx, qe = noise.q_bar(noise.alpha_bar[torch.full((X.shape[0],), T)])
    prob_X, prob_E = X @ qx, E @ qe.unsqueeze(1)
    lim_X = noise.px.expand_as(prob_X)
    lim_E = noise.pe.expand_as(prob_E)
    lim_X, lim_E, prob_X, prob_E = mask_distributions(lim_X, lim_E, prob_X, prob_E, mask)
    kx = F.kl_div(prob_X.log(), lim_X, reduction="none").flatten(1).sum(1)
    ke = F.kl_div(prob_E.log(), lim_E, reduction="none").flatten(1).sum(1)
    return kx + ke


def compute_Lt(noise, net, X, E, mask):
    t = torch.randint(1, T + 1, (X.shape[0],))
    Xt, Et = apply_noise(noise, X, E, mask, t)
    lx, le = net(Xt, Et, t / T, mask)
    pX, pE = F.softmax(lx, -1), F.softmax(le, -1)
    qx, qe = noise.q_bar(noise.alpha_bar[t - 1])
    tX, tE, pX, pE = mask_distributions(X @ qx, E @ qe.unsqueeze(1), pX @ qx, pE @ qe.unsqueeze(1), mask)
    kx = F.kl_div(pX.log(), tX, reduction="none").flatten(1).sum(1)
    ke = F.kl_div(pE.log(), tE, reduction="none").flatten(1).sum(1)
    return T * (kx + ke), kx.mean(), ke.mean()


def validate(noise, net, data):
    net.eval()
    X, E, mask = data
    with torch.no_grad():
        lt, kx, ke = compute_Lt(noise, net, X, E, mask)
        nll = (kl_prior(noise, X, E, mask) + lt).mean()
    net.train()
    return nll.item(), kx.item(), ke.item()


def main():
    train, val = sample_graphs(1200), sample_graphs(200)
    px = train[0][train[2]].mean(0)
    em = train[2].unsqueeze(1) & train[2].unsqueeze(2)
    pe = train[1][em].mean(0)
    noise = Noise(px, pe)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-6)
    best = 1e8
    for epoch in range(EPOCHS):
        total = 0.0
        for _ in range(STEPS):
            idx = torch.randint(0, 1200, (BATCH,))
            X, E, mask = train[0][idx], train[1][idx], train[2][idx]
            t = torch.randint(1, T + 1, (BATCH,))
            Xt, Et = apply_noise(noise, X, E, mask, t)
            lx, le = net(Xt, Et, t / T, mask)
            em = mask.unsqueeze(1) & mask.unsqueeze(2)
            loss = F.cross_entropy(lx[mask], X[mask].argmax(-1)) + 5.0 * F.cross_entropy(le[em], E[em].argmax(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        nll, kx, ke = validate(noise, net, val)
        if nll < best:
            best = nll
        print(f"Epoch {epoch}: train CE {total / STEPS:.3f} -- Val NLL {nll:.2f} -- Val Atom type KL {kx:.4f} -- "
              f"Val Edge type KL {ke:.4f}   Best val loss: {best:.4f}")


if __name__ == "__main__":
    main()
