"""Bayesian neural network for a binary classification table, trained with VOGN
(variational online Gauss-Newton, mean-field Gaussian over the weights)."""
import argparse
import math
import resource
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.optim import Optimizer


def goodfellow_backprop_ggn(activations, linear_grads):
    """Sum of the gradients and diagonal of the GGN, from the inputs of the linear layers and the
    gradients at their outputs."""
    grads, diag_ggns = [], []
    for G, X in zip(linear_grads, activations):
        if G.dim() < 2:
            G = G.unsqueeze(1)
        G = G * G.shape[0]      # the loss is an average
        grads.append(G.t() @ X)
        grads.append(G.sum(dim=0))
        diag_ggns.append((G ** 2).t() @ (X ** 2))
        diag_ggns.append((G ** 2).sum(dim=0))
    return grads, diag_ggns


class VOGN(Optimizer):
    """
    Arguments:
        train_set_size (int): number of data points in the full training set
        lr, beta (float): step size and decay of the precision's running average
        prior_prec, prec_init (float): precision of the prior and at the beginning
        num_samples (int): number of MC samples
    """

    def __init__(self, params, train_set_size, lr=1e-3, beta=0.999, prior_prec=1.0, prec_init=1.0, num_samples=1):
        defaults = dict(lr=lr, beta=beta, prior_prec=prior_prec, prec_init=prec_init,
                        num_samples=num_samples, train_set_size=train_set_size)
        super().__init__(params, defaults)
        p = parameters_to_vector(self.param_groups[0]["params"]).detach()
        self.mu = p.clone()
        self.precision = torch.full_like(p, prec_init)

    def sample(self):
        noise = torch.randn_like(self.mu)
        p = torch.addcdiv(self.mu, noise, torch.sqrt(self.precision))
        vector_to_parameters(p, self.param_groups[0]["params"])

    def step(self, closure):
        group = self.param_groups[0]
        ggn_hat, mu_grad_hat = None, None
        for _ in range(group["num_samples"]):
            self.sample()
            loss, grad, ggn, M = closure()
            grad_vec = parameters_to_vector(grad).div(M)
            ggn_vec = parameters_to_vector(ggn).div(M)
            mu_grad_hat = grad_vec if mu_grad_hat is None else mu_grad_hat + grad_vec
            ggn_hat = ggn_vec if ggn_hat is None else ggn_hat + ggn_vec

        scale = group["train_set_size"] / group["num_samples"]
        mu_grad_hat = mu_grad_hat * scale
        ggn_hat = ggn_hat * scale

        self.precision = self.precision * group["beta"] + (ggn_hat + group["prior_prec"]) * (1 - group["beta"])
        self.mu = torch.addcdiv(self.mu, mu_grad_hat + group["prior_prec"] * self.mu, self.precision, value=-group["lr"])
        return loss

    def get_mc_predictions(self, forward_function, inputs, mc_samples=1):
        predictions = []
        for _ in range(mc_samples):
            self.sample()
            predictions.append(forward_function(inputs))
        return predictions

    def kl_divergence(self):
        prec0 = self.param_groups[0]["prior_prec"]
        var_ratio = prec0 / self.precision
        return 0.5 * torch.sum(var_ratio + prec0 * self.mu ** 2 - 1 - var_ratio.log())


class IndividualGradientMLP(nn.Module):
    def __init__(self, input_size, hidden_sizes):
        super().__init__()
        sizes = [input_size] + hidden_sizes + [1]
        self.linears = nn.ModuleList([nn.Linear(i, o) for i, o in zip(sizes[:-1], sizes[1:])])

    def forward(self, x, individual_grads=False):
        H_list, Z_list = [], []
        for i, layer in enumerate(self.linears):
            H_list.append(x)
            z = layer(x)
            Z_list.append(z)
            x = torch.tanh(z) if i < len(self.linears) - 1 else z
        logits = x.squeeze(1)
        if individual_grads:
            return logits, H_list, Z_list
        return logits


def make_table(n, n_features, seed):
    """Patients: correlated laboratory values, the outcome depends on a few of them non-linearly."""
    gen = torch.Generator().manual_seed(seed)
    factors = torch.randn(n, 6, generator=gen)
    load = torch.randn(6, n_features, generator=torch.Generator().manual_seed(0))
    x = factors @ load * 0.5 + 0.7 * torch.randn(n, n_features, generator=gen)
    x = (x - x.mean(0)) / x.std(0)
    risk = 1.6 * x[:, 0] - 1.3 * x[:, 1] + 1.4 * x[:, 2] * x[:, 3] + 1.2 * torch.sin(2 * x[:, 4])
    y = (risk + 0.5 * torch.randn(n, generator=gen) > 0).float()
    return x, y


@torch.no_grad()
def evaluate(model, optimizer, x, y, mc_samples):
    model.eval()
    probs = torch.stack([torch.sigmoid(p) for p in optimizer.get_mc_predictions(model, x, mc_samples)]).mean(0)
    model.train()
    logloss = F.binary_cross_entropy(probs.clamp(1e-6, 1 - 1e-6), y).item()
    return logloss, ((probs > 0.5) == (y > 0.5)).float().mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--n-train", type=int, default=4000)
    p.add_argument("--n-test", type=int, default=2000)
    p.add_argument("--features", type=int, default=40)
    p.add_argument("--hidden", type=int, nargs="+", default=[64, 64])
    p.add_argument("--batch-size", type=int, default=100)
    p.add_argument("--epochs", type=int, default=38)
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--beta", type=float, default=0.99)
    p.add_argument("--prior-prec", type=float, default=5.0)
    p.add_argument("--prec-init", type=float, default=200.0)
    p.add_argument("--train-samples", type=int, default=2)
    p.add_argument("--eval-samples", type=int, default=200)
    p.add_argument("--seed", type=int, default=123)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    x, y = make_table(args.n_train + args.n_test, args.features, args.seed)
    x_train, y_train = x[:args.n_train], y[:args.n_train]
    x_test, y_test = x[args.n_train:], y[args.n_train:]
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x_train, y_train), args.batch_size, shuffle=True)

    model = IndividualGradientMLP(args.features, args.hidden)
    optimizer = VOGN(model.parameters(), train_set_size=args.n_train, lr=args.lr, beta=args.beta,
                     prior_prec=args.prior_prec, prec_init=args.prec_init, num_samples=args.train_samples)
    print(f"{sum(q.numel() for q in model.parameters())} weights")
    for epoch in range(args.epochs):
        start, running = time.time(), []
        model.train()
        for xb, yb in loader:
            def closure():
                optimizer.zero_grad()
                logits, H_list, Z_list = model(xb, individual_grads=True)
                loss = F.binary_cross_entropy_with_logits(logits, yb)
                linear_grads = torch.autograd.grad(loss, Z_list)
                grad, ggn = goodfellow_backprop_ggn(H_list, linear_grads)
                return loss, grad, ggn, len(xb)

            loss = optimizer.step(closure)
            running.append(loss.item())
        with torch.no_grad():
            elbo = -(args.n_train * sum(running) / len(running) + optimizer.kl_divergence().item()) / args.n_train
        logloss, acc = evaluate(model, optimizer, x_test, y_test, args.eval_samples)
        mem = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"Epoch {epoch + 1:2d}  train loss {sum(running) / len(running):.4f}  ELBO {elbo:.4f}  "
              f"test logloss {logloss:.4f}  acc {acc:.4f}  peak memory {mem:.0f} MB  {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
