"""Spiking recurrent network trained with surrogate gradients on cochlea-like spike trains."""
import argparse
import random
import time

import numpy as np
import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--nb_hidden", type=int, default=128)
parser.add_argument("--nb_epochs", type=int, default=200)
parser.add_argument("--batch_size", type=int, default=64)
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--n_train", type=int, default=4096)
parser.add_argument("--n_test", type=int, default=1024)
parser.add_argument("--seed", type=int, default=3)
args = parser.parse_args()

random.seed(args.seed)
np.random.seed(args.seed)
torch.manual_seed(args.seed)

nb_inputs = 140
nb_hidden = args.nb_hidden
nb_outputs = 20
nb_steps = 60
time_step = 2e-3
tau_mem = 20e-3
tau_syn = 10e-3
alpha = float(np.exp(-time_step / tau_syn))
beta = float(np.exp(-time_step / tau_mem))
dtype = torch.float


def make_templates(rng):
    """Every word is a set of formant tracks: channel as a function of time."""
    t = np.linspace(0, 1, nb_steps)
    tracks = []
    for _ in range(nb_outputs):
        tracks.append([rng.uniform(10, 130) + rng.uniform(-50, 50) * t + rng.uniform(0, 20) * np.sin(2 * np.pi * (rng.uniform(0.5, 2) * t + rng.random()))
                       for _ in range(3)])
    return tracks


def make_spikes(n, rng, tracks):
    X = np.zeros((n, nb_steps, nb_inputs), dtype=bool)
    y = rng.integers(0, nb_outputs, n)
    channels = np.arange(nb_inputs)
    for i in range(n):
        rate = np.full((nb_steps, nb_inputs), 0.01)
        warp = np.clip((np.arange(nb_steps) * rng.uniform(0.8, 1.2) + rng.integers(-5, 6)).astype(int), 0, nb_steps - 1)
        shift = rng.normal(0, 4)
        for track in tracks[y[i]]:
            centre = track[warp] + shift
            rate += 0.35 * np.exp(-0.5 * ((channels[None] - centre[:, None]) / 4.0) ** 2)
        X[i] = rng.random(rate.shape) < rate
    return X, y


data_rng = np.random.default_rng(100)
tracks = make_templates(data_rng)
x_train, y_train = make_spikes(args.n_train, data_rng, tracks)
x_test, y_test = make_spikes(args.n_test, data_rng, tracks)


def data_generator(X, y, batch_size, shuffle=True):
    sample_index = np.arange(len(y))
    if shuffle:
        np.random.shuffle(sample_index)
    for k in range(len(y) // batch_size):
        idx = sample_index[batch_size * k:batch_size * (k + 1)]
        yield torch.tensor(X[idx], dtype=dtype), torch.tensor(y[idx])


weight_scale = 0.2

w1 = torch.empty((nb_inputs, nb_hidden), dtype=dtype, requires_grad=True)
torch.nn.init.normal_(w1, mean=0.0, std=4 * weight_scale / np.sqrt(nb_inputs))

w2 = torch.empty((nb_hidden, nb_outputs), dtype=dtype, requires_grad=True)
torch.nn.init.normal_(w2, mean=0.0, std=weight_scale / np.sqrt(nb_hidden))

v1 = torch.empty((nb_hidden, nb_hidden), dtype=dtype, requires_grad=True)
torch.nn.init.normal_(v1, mean=0.0, std=weight_scale / np.sqrt(nb_hidden))


class SurrGradSpike(torch.autograd.Function):
    """Heaviside step forward, normalised negative part of a fast sigmoid backward."""
    scale = 20.0

    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return (input > 0).to(input.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        input, = ctx.saved_tensors
        return grad_output / (SurrGradSpike.scale * torch.abs(input) + 1.0) ** 2


spike_fn = SurrGradSpike.apply


def run_snn(inputs):
    batch = inputs.shape[0]
    syn = torch.zeros((batch, nb_hidden), dtype=dtype)
    mem = torch.zeros((batch, nb_hidden), dtype=dtype)
    out = torch.zeros((batch, nb_hidden), dtype=dtype)
    spk_rec = []

    # hidden layer with recurrent input
    h1_from_input = torch.einsum("abc,cd->abd", inputs, w1)
    for t in range(nb_steps):
        h1 = h1_from_input[:, t] + torch.einsum("ab,bc->ac", out, v1)
        mthr = mem - 1.0
        out = spike_fn(mthr)
        rst = out.detach()
        new_syn = alpha * syn + h1
        new_mem = (beta * mem + syn) * (1.0 - rst)
        mem, syn = new_mem, new_syn
        spk_rec.append(out)
    spk_rec = torch.stack(spk_rec, dim=1)

    # readout layer
    h2 = torch.einsum("abc,cd->abd", spk_rec, w2)
    flt = torch.zeros((batch, nb_outputs), dtype=dtype)
    out = torch.zeros((batch, nb_outputs), dtype=dtype)
    out_rec = [out]
    for t in range(nb_steps):
        new_flt = alpha * flt + h2[:, t]
        new_out = beta * out + flt
        flt, out = new_flt, new_out
        out_rec.append(out)
    return torch.stack(out_rec, dim=1), spk_rec


def compute_classification_accuracy(X, y):
    accs = []
    with torch.no_grad():
        for x_local, y_local in data_generator(X, y, args.batch_size, shuffle=False):
            output, _ = run_snn(x_local)
            m, _ = torch.max(output, 1)
            accs.append((m.argmax(1) == y_local).float().mean().item())
    return np.mean(accs)


def train():
    params = [w1, w2, v1]
    optimizer = torch.optim.Adamax(params, lr=args.lr, betas=(0.9, 0.999))
    log_softmax_fn = nn.LogSoftmax(dim=1)
    loss_fn = nn.NLLLoss()
    for e in range(args.nb_epochs):
        local_loss, t0 = [], time.time()
        for x_local, y_local in data_generator(x_train, y_train, args.batch_size):
            output, spks = run_snn(x_local)
            m, _ = torch.max(output, 1)
            log_p_y = log_softmax_fn(m)
            reg_loss = 1e-6 * torch.sum(spks)
            reg_loss = reg_loss + 1e-6 * torch.mean(torch.sum(torch.sum(spks, dim=0), dim=0) ** 2)
            loss_val = loss_fn(log_p_y, y_local) + reg_loss
            optimizer.zero_grad()
            loss_val.backward()
            optimizer.step()
            local_loss.append(loss_val.item())
            if len(local_loss) % 10 == 0:
                print("  batch %i: loss=%.4f spikes/unit=%.2f (%.0f ms)" % (
                    len(local_loss), np.mean(local_loss[-10:]), spks.sum(1).mean().item(),
                    1000 * (time.time() - t0) / len(local_loss)), flush=True)
        acc = compute_classification_accuracy(x_test, y_test)
        print("Epoch %i: loss=%.5f test accuracy=%.3f" % (e + 1, np.mean(local_loss), acc), flush=True)
        torch.save({"w1": w1, "w2": w2, "v1": v1}, "snn_weights.pt")


if __name__ == "__main__":
    train()
