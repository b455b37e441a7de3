"""What is known of reachability once all its stages are done."""

from typing import NamedTuple

from stacq.core.files import content_hash
from stacq.core.types import Float32s
from stacq.dynamics.models import Dynamics
from stacq.reach.sets import ReachableSets


class Reachable(NamedTuple):
    """Models, sets, and the actions that lead to their states."""

    dynamics: Dynamics
    sets: ReachableSets
    actions: Float32s  # [M, A] of `reach.actions.leading_actions`: of every entry that is not an own successor

    @property
    def parents(self) -> dict[str, str]:
        """Hashes of all three."""
        arrays = {"indptr": self.sets.indptr, "indices": self.sets.indices, "actions": self.actions}
        return {"dynamics": self.dynamics.fingerprint, "reachable": content_hash(arrays)}
