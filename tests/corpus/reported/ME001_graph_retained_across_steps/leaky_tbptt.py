import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class LILayer(nn.Module):
    """Leaky-integrator recurrent layer."""

    def __init__(self, n_in, n_out, decay=0.7):
        super().__init__()
        self.n_out, self.decay = n_out, decay
        self.forward_weights = nn.Linear(n_in, n_out)
        self.rec_weights = nn.Linear(n_out, n_out, bias=False)

    def forward(self, x, state=None):
        if state is None:
            state = x.new_zeros(x.shape[0], self.n_out)
        drive = self.forward_weights(x) + self.rec_weights(state)
        state = self.decay * state + (1 - self.decay) * torch.tanh(drive)
        return state


class SequentialRNN(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.ModuleList([LILayer(a, b) for a, b in zip(sizes[:-2], sizes[1:-1])])
        self.readout = nn.Linear(sizes[-2], sizes[-1])

    def forward(self, x, states):
        outs = []
        for t in range(x.shape[1]):
            h = x[:, t]
            for i, layer in enumerate(self.layers):
                states[i] = h = layer(h, states[i])
            outs.append(self.readout(h))
        return torch.stack(outs, 1), states


class TBPTT:
    def __init__(self, model, optimizer, time_steps):
        self.model, self.optimizer, self.time_steps = model, optimizer, time_steps
        self.criterion = nn.MSELoss()

    def detach_states(self, states):
        states[-1] = states[-1].detach()
        return states

    def train_batch(self, x, y):
        states = [None] * len(self.model.layers)
        total, chunks = 0.0, 0
        for start in range(0, x.shape[1], self.time_steps):
            stop = start + self.time_steps
            out, states = self.model(x[:, start:stop], states)
            loss = self.criterion(out, y[:, start:stop])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            states = self.detach_states(states)
            total += loss.item()
            chunks += 1
        return total / chunks

    @torch.no_grad()
    def evaluate(self, loader):
        self.model.eval()
        loss = 0.0
        for x, y in loader:
            out, _ = self.model(x, [None] * len(self.model.layers))
            loss += self.criterion(out, y).item()
        self.model.train()
        return loss / len(loader)


def make_data(n, seed, steps=60):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, steps, 3, generator=g)
    y, acc = [], torch.zeros(n, 1)
    for t in range(steps):
        acc = 0.8 * acc + 0.6 * x[:, t, :1] * 1.0 - 0.3 * x[:, t, 1:2]
        y.append(acc)
    return TensorDataset(x, torch.stack(y, 1))


def main():
    torch.manual_seed(134)
    train_loader = DataLoader(make_data(512, 0), batch_size=32, shuffle=True)
    val_loader = DataLoader(make_data(128, 1), batch_size=64)
    model = SequentialRNN([3, 48, 48, 1])
    la = TBPTT(model, torch.optim.Adam(model.parameters(), lr=3e-3), time_steps=15)
    for itr in range(6):
        losses = [la.train_batch(x, y) for x, y in train_loader]
        print(f"iteration {itr} train_loss {sum(losses) / len(losses):.4f} val_loss {la.evaluate(val_loader):.4f}")


if __name__ == "__main__":
    main()
