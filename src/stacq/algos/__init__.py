"""One module per algorithm, all of one shape; the table is the list of names."""

from typing import Any, Protocol

import jax

from stacq.algos import bc, onestep, stacq, td3bc
from stacq.algos.common import Phase, Sizes
from stacq.algos.world import World


class Algorithm(Protocol):
    """What the loop needs of a module. `State` is any tree of arrays; `Config` a frozen dataclass."""

    @property
    def Config(self) -> Any: ...

    @property
    def NEEDS_REACHABILITY(self) -> bool: ...

    @property
    def NEEDS_SUCCESSORS(self) -> bool: ...

    def init(self, key: jax.Array, sizes: Sizes, cfg: Any) -> Any: ...

    def phases(self, cfg: Any) -> tuple[Phase, ...]: ...

    def value(self, state: Any, s: jax.Array, world: World, cfg: Any) -> jax.Array | None: ...


ALGORITHMS: dict[str, Algorithm] = {"stacq": stacq, "onestep-stacq": onestep, "td3bc": td3bc, "bc": bc}
