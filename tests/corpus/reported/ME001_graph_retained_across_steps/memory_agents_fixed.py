"""Recurrent agents in a never-ending recall task, trained on-policy in chunks."""
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)

N_AGENTS, CHUNK, CUES, HIDDEN = 16, 12, 3, 48


class RecallArena:
    """Every fourth step shows a cue; the agent is rewarded for naming the latest cue while it is hidden."""

    def __init__(self, n, seed):
        self.n, self.t = n, 0
        self.g = torch.Generator().manual_seed(seed)
        self.cue = torch.randint(0, CUES, (n,), generator=self.g)

    def observe(self):
        obs = 0.1 * torch.randn(self.n, CUES + 1, generator=self.g)
        if self.t % 4 == 0:
            self.cue = torch.randint(0, CUES, (self.n,), generator=self.g)
            obs[torch.arange(self.n), self.cue] += 1.0
        else:
            obs[:, -1] += 1.0
        return obs

    def act(self, action):
        self.t += 1
        return (action == self.cue).float() - 1.0 / CUES


class NetworkBody(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(CUES + 1, HIDDEN), nn.Tanh())
        self.lstm = nn.LSTMCell(HIDDEN, HIDDEN)
        self.policy = nn.Linear(HIDDEN, CUES)
        self.value = nn.Linear(HIDDEN, 1)

    def forward(self, obs, memories):
        h, c = memories.chunk(2, dim=1)
        h, c = self.lstm(self.encoder(obs), (h, c))
        return self.policy(h), self.value(h).squeeze(1), torch.cat([h, c], 1)


class TorchPolicy:
    def __init__(self, network):
        self.network = network
        self.memory_dict = {}

    def retrieve_memories(self, ids):
        return torch.stack([self.memory_dict.get(i, torch.zeros(2 * HIDDEN)) for i in ids])

    def save_memories(self, ids, memories):
        for i, m in zip(ids, memories):
            self.memory_dict[i] = m

    def evaluate(self, obs, ids):
        memories = self.retrieve_memories(ids)
        logits, value, new_memories = self.network(obs, memories)
        action = torch.distributions.Categorical(logits=logits).sample()
        self.save_memories(ids, new_memories.detach())
        return action, memories.detach()


def update(network, optimizer, buffer, gamma=0.3):
    obs, actions, rewards = (torch.stack(buffer[k]) for k in ("obs", "action", "reward"))
    memory = buffer["memory"][0]
    logps, entropies, values = [], [], []
    for t in range(len(obs)):
        logits, value, memory = network(obs[t], memory)
        dist = torch.distributions.Categorical(logits=logits)
        logps.append(dist.log_prob(actions[t]))
        entropies.append(dist.entropy())
        values.append(value)
    returns, run = torch.zeros_like(rewards), torch.zeros(N_AGENTS)
    for t in reversed(range(len(obs))):
        run = rewards[t] + gamma * run
        returns[t] = run
    values = torch.stack(values)
    advantage = returns - values.detach()
    value_loss = F.mse_loss(values, returns)
    policy_loss = -(torch.stack(logps) * advantage).mean()
    loss = policy_loss + 0.5 * value_loss - 0.005 * torch.stack(entropies).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return value_loss.item(), rewards.mean().item()


def main():
    torch.manual_seed(2)
    env, network = RecallArena(N_AGENTS, seed=0), NetworkBody()
    policy = TorchPolicy(network)
    optimizer = torch.optim.Adam(network.parameters(), lr=4e-3)
    ids = [f"agent-{i}" for i in range(N_AGENTS)]
    stats = defaultdict(list)
    for chunk in range(160):
        buffer = defaultdict(list)
        for _ in range(CHUNK):
            obs = env.observe()
            action, memory = policy.evaluate(obs, ids)
            reward = env.act(action)
            for key, v in (("obs", obs), ("action", action), ("reward", reward), ("memory", memory)):
                buffer[key].append(v)
        value_loss, mean_reward = update(network, optimizer, buffer)
        stats["value"].append(value_loss)
        stats["reward"].append(mean_reward)
        if (chunk + 1) % 20 == 0:
            print("chunk {:4d}  value loss {:.4f}  mean reward {:+.3f}".format(
                chunk + 1, sum(stats["value"]) / 20, sum(stats["reward"]) / 20))
            stats.clear()


if __name__ == "__main__":
    main()
