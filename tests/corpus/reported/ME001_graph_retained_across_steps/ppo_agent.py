import torch
import torch.nn as nn
from torch.distributions import Normal

torch.set_num_threads(1)


class ReachEnv:
    """A point mass on a plane that has to reach a goal."""

    def __init__(self, num_envs, horizon, seed):
        self.n, self.horizon = num_envs, horizon
        self.g = torch.Generator().manual_seed(seed)

    def reset(self):
        self.pos = torch.rand(self.n, 2, generator=self.g) * 2 - 1
        self.goal = torch.rand(self.n, 2, generator=self.g) * 2 - 1
        return torch.cat([self.pos, self.goal], -1)

    def step(self, action):
        self.pos = self.pos + 0.25 * action.clamp(-1, 1)
        reward = -(self.pos - self.goal).norm(dim=-1)
        return torch.cat([self.pos, self.goal], -1), reward


class Agent(nn.Module):
    def __init__(self, clip=0.2, ent=1e-3):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))
        self.v = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
        self.log_std = nn.Parameter(torch.full((2,), -0.7))
        self.clip, self.ent = clip, ent

    def dist(self, obs):
        return Normal(self.pi(obs), self.log_std.exp())

    def loss(self, td):
        dist = self.dist(td["obs"])
        logp = dist.log_prob(td["act"]).sum(-1)
        ratio = (logp - td["logp"]).exp()
        adv = td["adv"]
        policy = -torch.min(ratio * adv, ratio.clamp(1 - self.clip, 1 + self.clip) * adv).mean()
        value = 0.5 * (self.v(td["obs"]).squeeze(-1) - td["ret"]).pow(2).mean()
        return policy + value - self.ent * dist.entropy().sum(-1).mean()


@torch.no_grad()
def rollout(agent, env, gamma=0.9):
    obs = env.reset()
    data = {"obs": [], "act": [], "logp": []}
    rewards = []
    for _ in range(env.horizon):
        dist = agent.dist(obs)
        act = dist.sample()
        data["obs"].append(obs)
        data["act"].append(act)
        data["logp"].append(dist.log_prob(act).sum(-1))
        obs, r = env.step(act)
        rewards.append(r)
    ret, acc = [], agent.v(obs).squeeze(-1)
    for r in reversed(rewards):
        acc = r + gamma * acc
        ret.insert(0, acc)
    td = {k: torch.cat(v) for k, v in data.items()}
    td["ret"] = torch.cat(ret) * 0.2
    adv = td["ret"] - agent.v(td["obs"]).squeeze(-1)
    td["adv"] = (adv - adv.mean()) / (adv.std() + 1e-6)
    return td, torch.stack(rewards).mean().item()


def train(num_iterations=24, update_epochs=3, minibatches=4, seed=0):
    torch.manual_seed(seed)
    env = ReachEnv(num_envs=48, horizon=16, seed=seed)
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=2e-3)
    total_loss = 0
    num_updates = 0
    for it in range(num_iterations):
        td, reward = rollout(agent, env)
        n = len(td["obs"])
        for _ in range(update_epochs):
            for idx in torch.randperm(n).chunk(minibatches):
                loss = agent.loss({k: v[idx] for k, v in td.items()})
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                num_updates += 1
                total_loss += loss
        if (it + 1) % 4 == 0:
            print(f"iter {it + 1} reward {reward:.3f} mean loss {float(total_loss) / num_updates:.4f}")


if __name__ == "__main__":
    train()
