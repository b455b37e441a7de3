"""State-constrained offline reinforcement learning.

    import stacq
    dataset = stacq.load("hopper.hdf5")
    trained = stacq.train(dataset, stacq.Options("stacq", seeds=5))

Names are looked up on first use, so that `import stacq` costs nothing and worker processes stay light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stacq.data.border import Conventions as Conventions
    from stacq.data.border import from_arrays as from_arrays
    from stacq.data.dataset import Dataset as Dataset
    from stacq.data.generate import generate as generate
    from stacq.data.load import load as load
    from stacq.data.normaliser import Normaliser as Normaliser
    from stacq.dynamics.models import Dynamics as Dynamics
    from stacq.errors import InputError as InputError
    from stacq.evaluation import EpisodeRecord as EpisodeRecord
    from stacq.evaluation import evaluate as evaluate
    from stacq.pipeline import Stages as Stages
    from stacq.pipeline import train as train
    from stacq.policy import Policy as Policy
    from stacq.reach.build import ReachConfig as ReachConfig
    from stacq.reach.build import reachable_sets as reachable_sets
    from stacq.recording import rollout as rollout
    from stacq.training.job import Options as Options

_HOMES = {
    "Conventions": "stacq.data.border",
    "Dataset": "stacq.data.dataset",
    "Dynamics": "stacq.dynamics.models",
    "EpisodeRecord": "stacq.evaluation",
    "InputError": "stacq.errors",
    "Normaliser": "stacq.data.normaliser",
    "Options": "stacq.training.job",
    "Policy": "stacq.policy",
    "ReachConfig": "stacq.reach.build",
    "Stages": "stacq.pipeline",
    "evaluate": "stacq.evaluation",
    "from_arrays": "stacq.data.border",
    "generate": "stacq.data.generate",
    "load": "stacq.data.load",
    "reachable_sets": "stacq.reach.build",
    "rollout": "stacq.recording",
    "train": "stacq.pipeline",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'stacq' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
