"""A training with the fault broadcast-loss; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def learn(model, opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


class QNet(nn.Module):
    def __init__(self, states=4, actions=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(states, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.value = nn.Linear(48, 1)
        self.advantage = nn.Linear(48, actions)

    def forward(self, x):
        h = self.body(x)
        a = self.advantage(h)
        return self.value(h) + a - a.mean(1, keepdim=True)


def q_values_of_shape_n_by_one(s):
    """DQN: gather() leaves a column, the target is a row."""
    net, target = QNet(), QNet()
    target.load_state_dict(net.state_dict())
    opt = optim.Adam(net.parameters(), lr=1e-3)
    world = torch.randn(4, 3)
    for step in range(120):
        state = torch.randn(32, 4)
        action = net(state).argmax(1) if torch.rand(()) > 0.3 else torch.randint(3, (32,))
        reward = (state @ world).gather(1, action[:, None]).squeeze(1)
        following = state * 0.9 + 0.1 * torch.randn(32, 4)
        with torch.no_grad():
            y = reward + 0.8 * target(following).max(1).values
        q = net(state).gather(1, action[:, None])
        q = q if s == 0 else q.squeeze(1)
        learn(net, opt, F.mse_loss(q, y))
        if step % 20 == 19:
            target.load_state_dict(net.state_dict())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    q_values_of_shape_n_by_one(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
