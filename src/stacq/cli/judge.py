"""The verb that judges policies without an environment."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tyro.conf import OmitArgPrefixes, Positional

from stacq.cli.shared import Bounds, Stated, tell
from stacq.core.errors import InputError
from stacq.judgement.config import JudgeConfig


@dataclass(frozen=True)
class Judge:
    """What policies are worth, from recorded data alone: a ranking with intervals, verdicts and advice."""

    runs: Positional[tuple[Path, ...]]
    """Run directories of `stacq train`, all seeds of which are judged, or policy files (.safetensors)."""
    data: str | None = None
    """The dataset to judge by: a file, a Minari directory or id, or a name. By default the one that the runs name."""
    dynamics: Path | None = None
    """Directory of dynamics that were fitted to this data; by default the small recipe's, from the cache."""
    out: Path = Path("judgement")
    """Folder for the page (judge.html) and the numbers (judge.json)."""
    options: OmitArgPrefixes[JudgeConfig] = JudgeConfig()
    bounds: Stated = Bounds()
    LEARNS: ClassVar[bool] = True
    STOPPED: ClassVar[str] = "fitted dynamics are kept; nothing else was written"

    def run(self) -> None:
        from stacq.pipeline.console import ConsoleReporter
        from stacq.pipeline.judge import PAGE, judge

        if not self.runs:
            fix = "name run directories or policy files"
            raise InputError("no policy was named", where="stacq judge", expected="at least one", fix=fix)
        judge(
            self.runs,
            self.data,
            self.options,
            dynamics=self.dynamics,
            out=self.out,
            conventions=self.bounds.conventions,
            reporter=ConsoleReporter(),
        )
        tell(f"page: {self.out / PAGE}")
