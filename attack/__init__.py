"""An attack on stacq, kept: kills, damaged files, command lines, full disks, hostile servers, and more.

`make attack` runs it. It needs Linux, no network but loopback, and writes only below a folder of its own.
What it makes up is shared with the tests of the readers.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests" / "data"))
