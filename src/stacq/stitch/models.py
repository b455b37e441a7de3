"""The three models that all iterations share, each an artefact: fitted once to the recorded data."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import jax
import numpy as np

from stacq.core.artefacts import cache_directory, read_artefact, write_artefact
from stacq.core.files import alone
from stacq.core.staging import sweep
from stacq.core.types import Array
from stacq.data.dataset import Dataset
from stacq.nn.cvae import CVAE
from stacq.nn.mlp import MLP
from stacq.stitch.config import StitchConfig
from stacq.stitch.forward import fit_forward
from stacq.stitch.inverse import fit_inverse, fit_reward

FORWARD, ENCODER, DECODER, REWARD = "forward", "encoder", "decoder", "reward"


class StitchModels(NamedTuple):
    forward: MLP  # the elites, [E, ...]
    inverse: CVAE
    reward: MLP


def made_models(dataset: Dataset, config: StitchConfig, say: Callable[[str], None]) -> StitchModels:
    """Fitted, or from the cache."""
    keys = jax.random.split(jax.random.key(config.seed), 3)

    def forward() -> Mapping[str, Array]:
        fit = fit_forward(dataset, config.forward, keys[0])
        losses = ", ".join(f"{loss:.3f}" for loss in fit.losses)
        say(f"forward model: validation losses {losses}; the best {fit.elites.members} are used")
        return arrays_of(FORWARD, fit.elites)

    def inverse() -> Mapping[str, Array]:
        cvae, loss = fit_inverse(dataset, config.inverse, keys[1])
        say(f"inverse model: loss {loss:.4f}")
        return {**arrays_of(ENCODER, cvae.encoder), **arrays_of(DECODER, cvae.decoder)}

    def reward() -> Mapping[str, Array]:
        network, loss = fit_reward(dataset, config.reward, keys[2])
        say(f"reward model: squared error {loss:.4g}")
        return arrays_of(REWARD, network)

    found = {
        **_kept("stitch-forward", asdict(config.forward), dataset, config.seed, forward, say),
        **_kept("stitch-inverse", asdict(config.inverse), dataset, config.seed, inverse, say),
        **_kept("stitch-reward", asdict(config.reward), dataset, config.seed, reward, say),
    }
    cvae = CVAE(network_of(ENCODER, found), network_of(DECODER, found))
    return StitchModels(network_of(FORWARD, found), cvae, network_of(REWARD, found))


def _kept(
    kind: str,
    config: Mapping[str, Any],
    dataset: Dataset,
    seed: int,
    make: Callable[[], Mapping[str, Array]],
    say: Callable[[str], None],
) -> Mapping[str, Array]:
    """The arrays of one artefact, made by one process at a time."""
    config, parents = {**config, "seed": seed}, {"dataset": dataset.fingerprint}
    directory = cache_directory(kind, config, parents)
    sweep(directory.parent)
    with alone(directory, lambda: say(f"another process is fitting the {kind} model: waiting for it")):
        if directory.exists():
            return read_artefact(directory, kind).arrays
        return write_artefact(directory, kind, make(), config, parents).arrays


def arrays_of(name: str, network: MLP) -> dict[str, Array]:
    """Weights and biases by layer."""
    layers = enumerate(zip(network.weights, network.biases, strict=True))
    return {
        f"{name}.{kind}{at}": np.asarray(values)
        for at, (weight, bias) in layers
        for kind, values in (("weight", weight), ("bias", bias))
    }


def network_of(name: str, arrays: Mapping[str, Array]) -> MLP:
    """What `arrays_of` took apart."""
    layers = sum(key.startswith(f"{name}.weight") for key in arrays)
    weights, biases = (
        tuple(jax.numpy.asarray(arrays[f"{name}.{kind}{at}"]) for at in range(layers)) for kind in ("weight", "bias")
    )
    return MLP(weights, biases)
