"""Federated averaging on a set of hand-drawn-like digits, split over many clients."""
import argparse
import copy
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, Subset

SEGMENTS = {
    0: "abcdef", 1: "bc", 2: "abged", 3: "abgcd", 4: "fgbc",
    5: "afgcd", 6: "afgedc", 7: "abc", 8: "abcdefg", 9: "abcdfg",
}
LINES = {
    "a": ((4, 8), (4, 20)), "b": ((4, 20), (14, 20)), "c": ((14, 20), (24, 20)), "d": ((24, 8), (24, 20)),
    "e": ((14, 8), (24, 8)), "f": ((4, 8), (14, 8)), "g": ((14, 8), (14, 20)),
}


class DigitSet(Dataset):
    """28x28 digits made of strokes with shaky end points."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.y = rng.integers(0, 10, n)
        self.x = np.stack([self.draw(int(k), rng) for k in self.y]).astype(np.float32)

    @staticmethod
    def draw(digit, rng):
        img = np.zeros((28, 28))
        shift = rng.integers(-2, 3, 2)
        slant = rng.uniform(-0.3, 0.3)
        s = np.linspace(0, 1, 28)[:, None]
        for seg in SEGMENTS[digit]:
            a, b = (np.array(end, float) + rng.normal(0, 1.0, 2) for end in LINES[seg])
            pts = a + s * (b - a)
            pts[:, 1] += slant * (14 - pts[:, 0])
            i, j = np.rint(pts + shift).astype(int).clip(0, 26).T
            img[i, j] = 1.0
            img[i + 1, j] = 1.0
        img = img * rng.uniform(0.7, 1.0) + rng.normal(0, 0.25, img.shape)
        return (img - 0.15) / 0.45

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), int(self.y[i])


class MLP(nn.Module):
    def __init__(self, dim_in, dim_hidden, dim_out):
        super().__init__()
        self.layer_input = nn.Linear(dim_in, dim_hidden)
        self.relu = nn.ReLU()
        self.dropout = nn.Dropout(0.2)
        self.layer_hidden = nn.Linear(dim_hidden, dim_out)

    def forward(self, x):
        x = x.view(x.size(0), -1)
        x = self.layer_input(x)
        x = self.dropout(x)
        x = self.relu(x)
        x = self.layer_hidden(x)
        return x


class LocalUpdate:
    def __init__(self, args, dataset, idxs):
        self.args = args
        self.loss_func = nn.CrossEntropyLoss()
        self.loader = DataLoader(Subset(dataset, idxs), batch_size=args.local_bs, shuffle=True)

    def train(self, net):
        net.train()
        optimizer = torch.optim.SGD(net.parameters(), lr=self.args.lr, momentum=self.args.momentum)
        epoch_loss = []
        for _ in range(self.args.local_ep):
            batch_loss = []
            for images, labels in self.loader:
                net.zero_grad()
                log_probs = net(images)
                loss = self.loss_func(log_probs, labels)
                loss.backward()
                optimizer.step()
                batch_loss.append(loss.item())
            epoch_loss.append(sum(batch_loss) / len(batch_loss))
        return net.state_dict(), sum(epoch_loss) / len(epoch_loss)


def average_weights(weights):
    avg = copy.deepcopy(weights[0])
    for key in avg:
        for w in weights[1:]:
            avg[key] += w[key]
        avg[key] = avg[key] / len(weights)
    return avg


@torch.no_grad()
def test_inference(net, dataset):
    net.eval()
    loss_func = nn.CrossEntropyLoss(reduction="sum")
    loss, correct = 0.0, 0
    for images, labels in DataLoader(dataset, batch_size=256):
        out = net(images)
        loss += loss_func(out, labels).item()
        correct += (out.argmax(1) == labels).sum().item()
    return loss / len(dataset), 100.0 * correct / len(dataset)


def iid_split(n, num_users, rng):
    return [part.tolist() for part in np.array_split(rng.permutation(n), num_users)]


def args_parser():
    p = argparse.ArgumentParser()
    p.add_argument("--rounds", type=int, default=16)
    p.add_argument("--hidden", type=int, default=1200)
    p.add_argument("--num_users", type=int, default=20)
    p.add_argument("--frac", type=float, default=0.25)
    p.add_argument("--local_ep", type=int, default=1)
    p.add_argument("--local_bs", type=int, default=50)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--momentum", type=float, default=0.5)
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


def main():
    args = args_parser()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)

    t0 = time.time()
    dataset_train, dataset_test = DigitSet(16000, 100), DigitSet(2000, 200)
    print("data ready (%.1fs)" % (time.time() - t0), flush=True)
    dict_users = iid_split(len(dataset_train), args.num_users, rng)
    net_glob = MLP(28 * 28, args.hidden, 10)
    w_glob = net_glob.state_dict()

    for rnd in range(1, args.rounds + 1):
        w_locals, loss_locals = [], []
        m = max(int(args.frac * args.num_users), 1)
        for idx in rng.choice(args.num_users, m, replace=False):
            local = LocalUpdate(args, dataset_train, dict_users[idx])
            w, loss = local.train(copy.deepcopy(net_glob))
            w_locals.append(w)
            loss_locals.append(loss)
        w_glob = average_weights(w_locals)
        net_glob.load_state_dict(w_glob)
        test_loss, acc = test_inference(net_glob, dataset_test)
        print("Round %3d, average local loss %.4f, test loss %.4f, test accuracy %.2f"
              % (rnd, sum(loss_locals) / len(loss_locals), test_loss, acc), flush=True)
    print("total %.1fs" % (time.time() - t0))


if __name__ == "__main__":
    main()
