import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical

torch.set_num_threads(1)


class Gridworld:
    """5x5 grid; each parallel agent walks to its own goal. -0.1 a step, +1 at the goal."""

    moves = torch.tensor([[0, 1], [0, -1], [1, 0], [-1, 0]])

    def __init__(self, n, seed):
        self.n, self.g = n, torch.Generator().manual_seed(seed)
        self.pos, self.goal, self.t = torch.zeros(n, 2, dtype=torch.long), torch.zeros(n, 2, dtype=torch.long), torch.zeros(n)
        self._reset(torch.ones(n, dtype=torch.bool))

    def _reset(self, mask):
        k = int(mask.sum())
        if k:
            self.pos[mask] = torch.randint(0, 5, (k, 2), generator=self.g)
            self.goal[mask] = torch.randint(0, 5, (k, 2), generator=self.g)
            self.t[mask] = 0

    def obs(self):
        return torch.cat([(self.pos.float() - 2) / 2, (self.goal.float() - 2) / 2], 1)

    def step(self, a):
        self.pos = (self.pos + self.moves[a]).clamp(0, 4)
        self.t += 1
        reached = (self.pos == self.goal).all(1)
        done = reached | (self.t >= 20)
        reward = torch.where(reached, 1.0, -0.1)
        self._reset(done)
        return self.obs(), reward, done.float()


class Policy(nn.Module):
    def __init__(self, dim=4, n_act=4, h=48):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, n_act))

    def forward(self, s):
        return Categorical(logits=self.net(s))


class Value(nn.Module):
    def __init__(self, dim=4, h=48):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 1))

    def forward(self, s):
        return self.net(s)


@torch.no_grad()
def estimate_advantages(rewards, dones, values, last_value, gamma=0.95, lam=0.9):
    """rewards, dones: (T, n); values: (T, n, 1)"""
    T, n = rewards.shape
    adv, gae, nxt = torch.zeros(T, n, 1), torch.zeros(n, 1), last_value
    for t in reversed(range(T)):
        mask = (1 - dones[t]).unsqueeze(1)
        delta = rewards[t].unsqueeze(1) + gamma * nxt * mask - values[t]
        gae = delta + gamma * lam * mask * gae
        adv[t], nxt = gae, values[t]
    returns = adv + values
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    return adv.view(-1, 1), returns.view(-1, 1)


def ppo_step(policy, value, opt_p, opt_v, states, actions, returns, advantages, old_log_probs, eps=0.2):
    value_loss = F.mse_loss(value(states), returns)
    opt_v.zero_grad()
    value_loss.backward()
    opt_v.step()

    dist = policy(states)
    ratio = torch.exp(dist.log_prob(actions) - old_log_probs)
    surr1 = ratio * advantages
    surr2 = torch.clamp(ratio, 1 - eps, 1 + eps) * advantages
    policy_loss = -torch.min(surr1, surr2).mean() - 0.01 * dist.entropy().mean()
    opt_p.zero_grad()
    policy_loss.backward()
    opt_p.step()
    return value_loss.item(), policy_loss.item()


def main():
    torch.manual_seed(0)
    env = Gridworld(16, seed=1)
    policy, value = Policy(), Value()
    opt_p = torch.optim.Adam(policy.parameters(), lr=5e-3)
    opt_v = torch.optim.Adam(value.parameters(), lr=5e-3)
    for it in range(1, 25):
        S, A, R, D, L = [], [], [], [], []
        s = env.obs()
        with torch.no_grad():
            for _ in range(32):
                dist = policy(s)
                a = dist.sample()
                s2, r, d = env.step(a)
                for buf, v in zip((S, A, R, D, L), (s, a, r, d, dist.log_prob(a))):
                    buf.append(v)
                s = s2
            states = torch.stack(S)
            values, last = value(states), value(s)
        rewards = torch.stack(R)
        adv, ret = estimate_advantages(rewards, torch.stack(D), values, last)
        states, actions, logp = states.flatten(0, 1), torch.cat(A), torch.cat(L)
        losses = []
        for _ in range(4):
            for idx in torch.randperm(len(states)).split(128):
                losses.append(ppo_step(policy, value, opt_p, opt_v, states[idx], actions[idx], ret[idx], adv[idx], logp[idx]))
        v = sum(l[0] for l in losses) / len(losses)
        if it % 3 == 0:
            print(f"Iter: {it}, total reward: {rewards.sum():.2f}, average reward: {rewards.mean():.4f}, value loss: {v:.4f}")


if __name__ == "__main__":
    main()
