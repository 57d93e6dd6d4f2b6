import argparse

import torch
import torch.nn as nn
import torch.optim as optim

parser = argparse.ArgumentParser(description="Learning to optimize small quadratic problems")
parser.add_argument("--optimizer_steps", type=int, default=20)
parser.add_argument("--updates_per_epoch", type=int, default=30)
parser.add_argument("--max_epoch", type=int, default=6)
parser.add_argument("--hidden_size", type=int, default=16)
parser.add_argument("--num_layers", type=int, default=2)
parser.add_argument("--batch_size", type=int, default=16)
parser.add_argument("--lr", type=float, default=3e-3)
parser.add_argument("--seed", type=int, default=1)


class LayerNormLSTMCell(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.fc_ih = nn.Linear(input_size, 4 * hidden_size)
        self.fc_hh = nn.Linear(hidden_size, 4 * hidden_size, bias=False)
        self.ln_ih = nn.LayerNorm(4 * hidden_size)
        self.ln_hh = nn.LayerNorm(4 * hidden_size)
        self.ln_c = nn.LayerNorm(hidden_size)

    def forward(self, x, state):
        hx, cx = state
        gates = self.ln_ih(self.fc_ih(x)) + self.ln_hh(self.fc_hh(hx))
        i, f, g, o = gates.chunk(4, dim=-1)
        cx = torch.sigmoid(f) * cx + torch.sigmoid(i) * torch.tanh(g)
        hx = torch.sigmoid(o) * torch.tanh(self.ln_c(cx))
        return hx, cx


class MetaOptimizer(nn.Module):
    def __init__(self, num_layers, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.linear1 = nn.Linear(2, hidden_size)
        self.lstms = nn.Sequential(*[LayerNormLSTMCell(hidden_size, hidden_size) for _ in range(num_layers)])
        self.linear2 = nn.Linear(hidden_size, 1)

    def reset(self, n):
        return [(torch.zeros(n, self.hidden_size), torch.zeros(n, self.hidden_size)) for _ in self.lstms]

    def forward(self, grads, states):
        x = torch.stack([grads.clamp(-3, 3), grads.sign()], dim=-1)
        h = torch.tanh(self.linear1(x))
        new_states = []
        for lstm, state in zip(self.lstms, states):
            state = lstm(h, state)
            new_states.append(state)
            h = state[0]
        return 0.1 * self.linear2(h).squeeze(-1), new_states


class QuadraticTask:
    """Batch of random least squares problems |W theta - y|^2 / d."""

    def __init__(self, batch, dim=6, generator=None):
        self.w = torch.randn(batch, dim, dim, generator=generator) / dim ** 0.5 + torch.eye(dim)
        target = torch.randn(batch, dim, generator=generator)
        self.y = (self.w @ target.unsqueeze(-1)).squeeze(-1)
        self.theta = torch.zeros(batch, dim)

    def loss(self, theta):
        return (((self.w @ theta.unsqueeze(-1)).squeeze(-1) - self.y) ** 2).mean(-1)

    def grad(self, theta):
        r = (self.w @ theta.unsqueeze(-1)).squeeze(-1) - self.y
        return 2 * (self.w.transpose(1, 2) @ r.unsqueeze(-1)).squeeze(-1)


def unroll(meta, task, steps):
    theta = task.theta
    states = meta.reset(theta.numel())
    total = 0.0
    for _ in range(steps):
        grads = task.grad(theta.detach())
        update, states = meta(grads.reshape(-1), states)
        theta = theta + update.view_as(theta)
        total = total + task.loss(theta).mean()
    return total / steps, task.loss(theta).mean()


def main():
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    meta_optimizer = MetaOptimizer(args.num_layers, args.hidden_size)
    optimizer = optim.Adam(meta_optimizer.parameters(), lr=args.lr)
    valid_task = QuadraticTask(64, generator=torch.Generator().manual_seed(99))

    for epoch in range(args.max_epoch):
        final_loss = 0.0
        for _ in range(args.updates_per_epoch):
            task = QuadraticTask(args.batch_size)
            loss, last = unroll(meta_optimizer, task, args.optimizer_steps)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(meta_optimizer.parameters(), 5.0)
            optimizer.step()
            final_loss += last.item()
        with torch.no_grad():
            mean, last = unroll(meta_optimizer, valid_task, args.optimizer_steps)
        print(f"Epoch {epoch}, final loss {final_loss / args.updates_per_epoch:.4f}, "
              f"valid mean {mean.item():.4f} final {last.item():.4f}")


if __name__ == "__main__":
    main()
