"""The verb that takes a policy to where it is used."""

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import Positional

from stacq.cli.shared import tell
from stacq.core.unsaid import UNSAID, Count, Place, Texts


@dataclass(frozen=True)
class Export:
    """Write a policy as an ONNX graph or a C header, with normaliser and bounds inside, to run without Python."""

    policy: Positional[str]
    """A policy file (.safetensors), or the directory of a training run."""
    format: Annotated[Literal["onnx", "c"] | None, UNSAID] = None
    """`onnx` needs the onnx extra; `c` takes policies that are one network. By default as the ending of --out says."""
    out: Place = None
    """The file, which ends in .onnx or .h; by default one in the working directory, called after --name."""
    seed: Count = None
    """Which policy of a run; by default the one with the best final score, and the first if there are no scores."""
    name: str = "policy"
    """Name of the graph, and of the function in C: NAME_act."""
    sample: bool = False
    """Keep the chance of a stochastic policy: the graph gets a second input, `noise`, of standard normal numbers."""
    observation_names: Texts = None
    """What the dimensions of an observation are called, for whoever reads the file."""
    action_names: Texts = None
    """The same of an action; by default both are those of the run's data, where it has names."""
    force: bool = False
    """Write over a file that is there."""

    def run(self) -> None:
        from stacq.shipping.export import export

        path = export(
            self.policy,
            self.out,
            format=self.format,
            seed=self.seed,
            name=self.name,
            sample=self.sample,
            observation_names=self.observation_names,
            action_names=self.action_names,
            force=self.force,
            tell=tell,
        )
        tell(f"written: {path}")
