import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)


class DriftEnv:
    """n parallel one-dimensional carts pushed by a known drift; actions lie in [-2, 2]."""

    low, high = -2.0, 2.0

    def __init__(self, n, seed):
        self.n, self.g = n, torch.Generator().manual_seed(seed)
        self.reset()

    def reset(self):
        self.x = torch.rand(self.n, 1, generator=self.g) * 4 - 2
        self.w = torch.rand(self.n, 1, generator=self.g) * 2 - 1
        return self.state()

    def state(self):
        return torch.cat([self.x, self.w], 1)

    def step(self, a):
        self.x = (self.x + 0.5 * a + 0.4 * self.w + 0.05 * torch.randn(self.n, 1, generator=self.g)).clamp(-3, 3)
        r = -0.5 * self.x.pow(2).squeeze(1) - 0.02 * a.pow(2).squeeze(1)
        return self.state(), r


def mlp(i, o, h=48):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class SoftDeterministicPolicyNetwork(nn.Module):
    def __init__(self, model, low, high):
        super().__init__()
        self.model = model
        self._tanh_scale = (high - low) / 2
        self._tanh_mean = (high + low) / 2

    def forward(self, state):
        out = self.model(state)
        action_dim = out.shape[1] // 2
        means, logvars = out[:, :action_dim], out[:, action_dim:].clamp(-8, 2)
        normal = torch.distributions.Normal(means, logvars.mul(0.5).exp())
        if self.training:
            return self._sample(normal)
        return self._squash(normal.loc)

    def _sample(self, normal):
        raw = normal.rsample()
        action = self._squash(raw)
        log_prob = normal.log_prob(raw)
        log_prob = log_prob - torch.log(1 - torch.tanh(raw).pow(2) + 1e-6)
        return action, log_prob.sum(1)

    def _squash(self, x):
        return torch.tanh(x) * self._tanh_scale + self._tanh_mean


class Replay:
    def __init__(self, cap, seed):
        self.cap, self.data, self.pos = cap, None, 0
        self.size, self.g = 0, torch.Generator().manual_seed(seed)

    def store(self, s, a, r, s2):
        row = torch.cat([s, a, r.unsqueeze(1), s2], 1).detach()
        if self.data is None:
            self.data = torch.zeros(self.cap, row.shape[1])
        idx = (self.pos + torch.arange(len(row))) % self.cap
        self.data[idx] = row
        self.pos = (self.pos + len(row)) % self.cap
        self.size = min(self.size + len(row), self.cap)

    def sample(self, n):
        b = self.data[torch.randint(0, self.size, (n,), generator=self.g)]
        return b[:, :2], b[:, 2:3], b[:, 3], b[:, 4:]


class SAC:
    def __init__(self, env, gamma=0.8, tau=0.02, temperature=0.05, lr=2e-3):
        self.policy = SoftDeterministicPolicyNetwork(mlp(2, 2), env.low, env.high)
        self.q = nn.ModuleList([mlp(3, 1), mlp(3, 1)])
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)
        self.opt_pi = torch.optim.Adam(self.policy.parameters(), lr=lr)
        self.opt_q = torch.optim.Adam(self.q.parameters(), lr=lr)
        self.gamma, self.tau, self.temperature = gamma, tau, temperature

    @staticmethod
    def qvals(nets, s, a):
        return [net(torch.cat([s, a / 2], 1)).squeeze(1) for net in nets]

    def update(self, s, a, r, s2):
        with torch.no_grad():
            a2, lp2 = self.policy(s2)
            target = r + self.gamma * (torch.min(*self.qvals(self.q_target, s2, a2)) - self.temperature * lp2)
        q_loss = sum(F.mse_loss(q, target) for q in self.qvals(self.q, s, a))
        self.opt_q.zero_grad()
        q_loss.backward()
        self.opt_q.step()

        self.q.requires_grad_(False)
        pi, lp = self.policy(s)
        pi_loss = (self.temperature * lp - torch.min(*self.qvals(self.q, s, pi))).mean()
        self.opt_pi.zero_grad()
        pi_loss.backward()
        self.opt_pi.step()
        self.q.requires_grad_(True)

        with torch.no_grad():
            for p, pt in zip(self.q.parameters(), self.q_target.parameters()):
                pt.lerp_(p, self.tau)
        return q_loss.item(), pi_loss.item()


def evaluate(policy, seed):
    env, total = DriftEnv(64, seed), 0.0
    policy.eval()
    with torch.no_grad():
        s = env.reset()
        for _ in range(12):
            s, r = env.step(policy(s))
            total += r.mean().item()
    policy.train()
    return total


if __name__ == "__main__":
    torch.manual_seed(8)
    env = DriftEnv(16, 0)
    agent, replay = SAC(env), Replay(4000, 1)
    s = env.reset()
    for t in range(440):
        if t < 40:
            a = torch.rand(env.n, 1) * 4 - 2
        else:
            with torch.no_grad():
                a, _ = agent.policy(s)
        s2, r = env.step(a)
        replay.store(s, a, r, s2)
        s = env.reset() if t % 12 == 11 else s2
        if t >= 40:
            q_loss, pi_loss = agent.update(*replay.sample(64))
            if t % 50 == 40:
                print(f"step {t}: q loss {q_loss:.4f}  policy loss {pi_loss:.4f}  return {evaluate(agent.policy, 99):.3f}")
    print(f"final return {evaluate(agent.policy, 99):.3f}")
