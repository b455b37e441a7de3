"""Types of options that may be left out: their help says in words what then holds, and never `default: None`."""

from pathlib import Path
from typing import Annotated

from tyro.conf import arg

UNSAID = arg(help_behavior_hint="")
"""For types of one use."""
Count = Annotated[int | None, arg(metavar="INT", help_behavior_hint="")]
Number = Annotated[float | None, arg(metavar="FLOAT", help_behavior_hint="")]
Numbers = Annotated[tuple[float, ...] | None, arg(metavar="FLOAT [FLOAT ...]", help_behavior_hint="")]
Text = Annotated[str | None, arg(metavar="STR", help_behavior_hint="")]
Texts = Annotated[tuple[str, ...] | None, arg(metavar="[STR ...]", help_behavior_hint="")]
Place = Annotated[Path | None, arg(metavar="PATH", help_behavior_hint="")]
