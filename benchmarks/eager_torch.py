"""StaCQ and TD3+BC as people write them in eager PyTorch: the yardstick of `training_speed.py`, not part of stacq.

Modules, one optimiser per network, lists of networks called one after the other, gradients by `backward()`.
What never learns is frozen, and targets are made without gradients; beyond that nothing is tuned.
"""

from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

DISCOUNT, TAU, RATE = 0.99, 0.005, 3e-4
TARGET_NOISE, ACTOR_NOISE, CLIP = 0.2, 0.1, 0.5


class Data:
    """Tensors to draw from: rows, and the flat reachable rows of each (start, size)."""

    def __init__(self, arrays: dict[str, Tensor]) -> None:
        self.s, self.a, self.r = arrays["s"], arrays["a"], arrays["r"]
        self.s_next, self.done = arrays["s_next"], arrays["done"]
        self.start, self.size, self.rows = arrays["start"], arrays["size"], arrays["rows"]

    def draw(self, batch: int) -> Tensor:
        return torch.randint(0, len(self.s), (batch,))

    def draw_pairs(self, index: Tensor, slots: int) -> tuple[Tensor, Tensor]:
        """Place in the batch, and reachable row, of every pair beside the own ones; at most `slots`."""
        size = self.size[index]
        anchor = torch.repeat_interleave(torch.arange(len(index)), size)
        before = torch.cumsum(size, 0) - size
        entry = self.start[index][anchor] + torch.arange(len(anchor)) - before[anchor]
        if len(entry) > slots:
            kept = torch.randperm(len(entry))[:slots]
            anchor, entry = anchor[kept], entry[kept]
        return anchor, self.rows[entry]


def mlp(inputs: int, hidden: tuple[int, ...], outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


class Actor(nn.Module):
    def __init__(self, state: int, action: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.net = mlp(state, hidden, action)

    def forward(self, s: Tensor) -> Tensor:
        return torch.tanh(self.net(s))


class Critics(nn.Module):
    """Independent networks in a list, [M, B]."""

    def __init__(self, members: int, inputs: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.nets = nn.ModuleList([mlp(inputs, hidden, 1) for _ in range(members)])

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        joined = torch.cat([first, second], dim=1)
        return torch.stack([net(joined).squeeze(1) for net in self.nets])

    def first(self, first: Tensor, second: Tensor) -> Tensor:
        q: Tensor = self.nets[0](torch.cat([first, second], dim=1)).squeeze(1)
        return q


class ForwardModels(nn.Module):
    """Frozen ensemble: the mean of the members' next states."""

    def __init__(self, members: int, state: int, action: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.nets = nn.ModuleList([mlp(state + action, hidden, state) for _ in range(members)])
        self.requires_grad_(False)

    def forward(self, s: Tensor, a: Tensor) -> Tensor:
        joined = torch.cat([s, a], dim=1)
        return s + torch.stack([net(joined) for net in self.nets]).mean(dim=0)


def noisy(a: Tensor, deviation: float) -> Tensor:
    return (a + (torch.randn_like(a) * deviation).clamp(-CLIP, CLIP)).clamp(-1, 1)


def soft_update(network: nn.Module, target: nn.Module) -> None:
    for fast, slow in zip(network.parameters(), target.parameters(), strict=True):
        slow.data.copy_(TAU * fast.data + (1 - TAU) * slow.data)


def descend(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()


class TD3BC:
    def __init__(self, data: Data, batch: int, hidden: tuple[int, ...], critics: int, every: int) -> None:
        state, action = data.s.shape[1], data.a.shape[1]
        self.data, self.batch, self.every, self.done = data, batch, every, 0
        self.actor, self.critics = Actor(state, action, hidden), Critics(critics, state + action, hidden)
        self.slow_actor, self.slow_critics = deepcopy(self.actor), deepcopy(self.critics)
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), lr=RATE)
        self.critic_adam = torch.optim.Adam(self.critics.parameters(), lr=RATE)

    def step(self) -> None:
        self.done += 1
        data, index = self.data, self.data.draw(self.batch)
        s, a, r, s_next, done = data.s[index], data.a[index], data.r[index], data.s_next[index], data.done[index]
        with torch.no_grad():
            v = self.slow_critics(s_next, noisy(self.slow_actor(s_next), TARGET_NOISE)).min(dim=0).values
            y = r + DISCOUNT * (1 - done) * v
        q = self.critics(s, a)
        descend(self.critic_adam, sum((F.mse_loss(member, y) for member in q), start=torch.zeros(())))
        if self.done % self.every == 0:
            self.actor_step(s, a)

    def actor_step(self, s: Tensor, a: Tensor) -> None:
        chosen = self.actor(s)
        q = self.critics.first(s, chosen)
        weight = 2.5 / q.abs().mean().detach()
        descend(self.actor_adam, -weight * q.mean() + F.mse_loss(chosen, a))
        soft_update(self.critics, self.slow_critics)
        soft_update(self.actor, self.slow_actor)


class StaCQ:
    def __init__(
        self,
        data: Data,
        batch: int,
        slots: int,
        hidden: tuple[int, ...],
        critics: int,
        models: ForwardModels,
        steps: int,
    ) -> None:
        state, action = data.s.shape[1], data.a.shape[1]
        self.data, self.batch, self.slots, self.models = data, batch, slots, models
        self.actor, self.critics = Actor(state, action, hidden), Critics(critics, 2 * state, hidden)
        self.reward = mlp(2 * state, hidden, 1)
        self.slow_actor, self.slow_critics = deepcopy(self.actor), deepcopy(self.critics)
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), lr=RATE)
        self.critic_adam = torch.optim.Adam(self.critics.parameters(), lr=RATE)
        self.reward_adam = torch.optim.Adam(self.reward.parameters(), lr=RATE)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.actor_adam, steps)

    def predicted_reward(self, s: Tensor, s_next: Tensor) -> Tensor:
        r: Tensor = self.reward(torch.cat([s, s_next], dim=1)).squeeze(1)
        return r

    def step(self) -> None:
        data, index = self.data, self.data.draw(self.batch)
        anchor, member = data.draw_pairs(index, self.slots)
        own_s, own_next = data.s[index], data.s_next[index]
        descend(self.reward_adam, F.mse_loss(self.predicted_reward(own_s, own_next), data.r[index]))
        s, s_next = torch.cat([own_s, own_s[anchor]]), torch.cat([own_next, data.s_next[member]])
        done = torch.cat([data.done[index], data.done[member]])
        y = self.target(s, s_next, done)
        descend(self.critic_adam, ((self.critics(s, s_next) - y) ** 2).mean(dim=1).sum())
        self.actor_step(own_s, self.best_reachable(s, s_next, anchor))
        soft_update(self.critics, self.slow_critics)
        soft_update(self.actor, self.slow_actor)

    @torch.no_grad()
    def target(self, s: Tensor, s_next: Tensor, done: Tensor) -> Tensor:
        reached = self.models(s_next, noisy(self.slow_actor(s_next), TARGET_NOISE))
        v = self.slow_critics(s_next, reached).min(dim=0).values
        y: Tensor = self.predicted_reward(s, s_next) + DISCOUNT * (1 - done) * v
        return y

    @torch.no_grad()
    def best_reachable(self, s: Tensor, s_next: Tensor, anchor: Tensor) -> Tensor:
        """The next state of greatest value among the pairs of each anchor, [B, S]."""
        q = self.critics(s, s_next).min(dim=0).values
        mine = torch.cat([torch.arange(self.batch), anchor])[None] == torch.arange(self.batch)[:, None]
        best: Tensor = s_next[torch.where(mine, q, -torch.inf).argmax(dim=1)]
        return best

    def actor_step(self, s: Tensor, best: Tensor) -> None:
        reached = self.models(s, noisy(self.actor(s), ACTOR_NOISE))
        q = self.critics(s, reached).min(dim=0).values
        weight = 1.0 / q.abs().mean().detach()
        descend(self.actor_adam, -weight * q.mean() + F.mse_loss(reached, best))
        self.schedule.step()
