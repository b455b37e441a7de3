"""State-constrained offline reinforcement learning.

    import stacq
    trained = stacq.train("hopper.hdf5", algorithm="stacq", seeds=5)

Names are looked up on first use, so that `import stacq` costs nothing and worker processes stay light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import version

    from stacq.algos import register as register
    from stacq.algos.algorithm import Algorithm as Algorithm
    from stacq.core.errors import InputError as InputError
    from stacq.core.normaliser import Normaliser as Normaliser
    from stacq.data.border import from_arrays as from_arrays
    from stacq.data.conventions import Conventions as Conventions
    from stacq.data.dataset import Dataset as Dataset
    from stacq.data.generate import generate as generate
    from stacq.data.load import load as load
    from stacq.dynamics.models import Dynamics as Dynamics
    from stacq.evaluation.recording import rollout as rollout
    from stacq.evaluation.records import EpisodeRecord as EpisodeRecord
    from stacq.evaluation.rollouts import evaluate as evaluate
    from stacq.judgement.config import JudgeConfig as JudgeConfig
    from stacq.pipeline.console import ConsoleReporter as ConsoleReporter
    from stacq.pipeline.judge import judge as judge
    from stacq.pipeline.options import Options as Options
    from stacq.pipeline.options import Stages as Stages
    from stacq.pipeline.reporter import Reporter as Reporter
    from stacq.pipeline.train import train as train
    from stacq.policies import Policy as Policy
    from stacq.reach.build import reachable_sets as reachable_sets
    from stacq.reach.config import ReachConfig as ReachConfig
    from stacq.shipping.export import export as export

    __version__ = version("stacq")

_HOMES = {
    "Algorithm": "stacq.algos.algorithm",
    "ConsoleReporter": "stacq.pipeline.console",
    "Conventions": "stacq.data.border",
    "Dataset": "stacq.data.dataset",
    "Dynamics": "stacq.dynamics.models",
    "EpisodeRecord": "stacq.evaluation.records",
    "InputError": "stacq.core.errors",
    "JudgeConfig": "stacq.judgement.config",
    "Normaliser": "stacq.core.normaliser",
    "Options": "stacq.pipeline.options",
    "Policy": "stacq.policies",
    "ReachConfig": "stacq.reach.config",
    "Reporter": "stacq.pipeline.reporter",
    "Stages": "stacq.pipeline.options",
    "evaluate": "stacq.evaluation.rollouts",
    "export": "stacq.shipping.export",
    "from_arrays": "stacq.data.border",
    "generate": "stacq.data.generate",
    "judge": "stacq.pipeline.judge",
    "load": "stacq.data.load",
    "reachable_sets": "stacq.reach.build",
    "register": "stacq.algos",
    "rollout": "stacq.evaluation.recording",
    "train": "stacq.pipeline.train",
}
__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("stacq")
    if name not in _HOMES:
        raise AttributeError(f"module 'stacq' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
