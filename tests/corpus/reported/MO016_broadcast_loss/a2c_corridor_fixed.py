import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(33)
torch.set_num_threads(1)
ACTIONS = 3
GAMMA = 0.9


class Corridor:
    """Walk left, stay or walk right until the marker is reached; several corridors at once."""

    def __init__(self, n, seed):
        self.n = n
        self.g = torch.Generator().manual_seed(seed)

    def reset(self):
        self.x = torch.rand(self.n, generator=self.g) * 2 - 1
        self.goal = torch.rand(self.n, generator=self.g) * 2 - 1
        return torch.stack([self.x, self.goal], 1)

    def step(self, action):
        self.x = (self.x + 0.2 * (action.float() - 1)).clamp(-1.5, 1.5)
        return torch.stack([self.x, self.goal], 1), -(self.x - self.goal).abs()


class ActorNetwork(nn.Module):
    def __init__(self, hidden=40):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, ACTIONS))

    def forward(self, x):
        return F.log_softmax(self.net(x), dim=1)


class ValueNetwork(nn.Module):
    def __init__(self, hidden=40):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x)


def roll_out(actor, env, steps=16):
    states, actions, rewards = [], [], []
    state = env.reset()
    with torch.no_grad():
        for _ in range(steps):
            action = torch.multinomial(actor(state).exp(), 1).squeeze(1)
            states.append(state)
            actions.append(action)
            state, reward = env.step(action)
            rewards.append(reward)
    return states, actions, rewards


def discount(rewards, final):
    out, acc = [], final
    for r in reversed(rewards):
        acc = r + GAMMA * acc
        out.insert(0, acc)
    return out


def main(updates=220):
    env = Corridor(12, 1)
    actor, critic = ActorNetwork(), ValueNetwork()
    actor_optim = torch.optim.Adam(actor.parameters(), lr=3e-3)
    critic_optim = torch.optim.Adam(critic.parameters(), lr=3e-3)
    score = None
    for update in range(updates):
        states, actions, rewards = roll_out(actor, env)
        with torch.no_grad():
            final = critic(states[-1]).squeeze(1)
        qs = torch.cat(discount(rewards[:-1], final))
        states_var = torch.cat(states[:-1])
        one_hot = F.one_hot(torch.cat(actions[:-1]), ACTIONS).float()

        actor_optim.zero_grad()
        log_probs = actor(states_var)
        vs = critic(states_var).detach()
        advantages = qs - vs[:, 0]
        probs = torch.sum(log_probs * one_hot, 1)
        actor_loss = -torch.mean(probs * advantages) + 0.01 * (log_probs.exp() * log_probs).sum(1).mean()
        actor_loss.backward()
        actor_optim.step()

        critic_optim.zero_grad()
        critic_loss = F.mse_loss(critic(states_var).squeeze(1), qs)
        critic_loss.backward()
        critic_optim.step()

        mean_reward = torch.stack(rewards).mean().item()
        score = mean_reward if score is None else 0.9 * score + 0.1 * mean_reward
        if (update + 1) % 20 == 0:
            print(f"update {update + 1} reward {score:.3f} critic loss {critic_loss.item():.4f}")


if __name__ == "__main__":
    main()
