"""Whether a dataset belongs to an environment."""

from stacq.core.errors import InputError
from stacq.data.dataset import Dataset
from stacq.envs.gym import EnvFacts


def check_match(dataset: Dataset, facts: EnvFacts) -> None:
    """Refuse to score a dataset's policy in an environment of other dimensions, or that cannot do its actions."""
    data = (dataset.observation_size, dataset.action_size)
    env = (facts.observation_size, facts.action_size)
    if data != env:
        raise InputError(
            f"the data has observations of {data[0]} and actions of {data[1]} numbers",
            where=f"{dataset.name or 'dataset'} in {facts.label}",
            expected=f"{env[0]} and {env[1]}, the sizes of {facts.label}",
            fix="name the environment that the data was recorded in (--env)",
        )
    slack = 1e-3 * (dataset.action_high - dataset.action_low)
    if (dataset.action_low < facts.action_low - slack).any() or (dataset.action_high > facts.action_high + slack).any():
        raise InputError(
            f"the data's actions may go from {dataset.action_low.tolist()} to {dataset.action_high.tolist()}",
            where=f"{dataset.name or 'dataset'} in {facts.label}",
            expected=f"within {facts.action_low.tolist()} to {facts.action_high.tolist()}, as {facts.label} allows",
            fix="state the bounds of the data (--action-low, --action-high)",
        )
