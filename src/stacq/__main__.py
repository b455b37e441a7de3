"""`python -m stacq` is the `stacq` command."""

from stacq.cli import main

main()
