"""Whatever a damaged address or an odd command line says, nothing leaves this machine."""

import sys
from typing import Any

HOMES = ("127.", "::1", "localhost")


def stay_home() -> None:
    """From here on this process reaches loopback alone."""
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.getaddrinfo":
        _check(arguments[0])
    elif event == "socket.connect" and isinstance(arguments[1], tuple):
        _check(arguments[1][0])


def _check(host: Any) -> None:
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
    if not name.startswith(HOMES):
        raise ConnectionRefusedError(f"the attack lets nothing out: {name!r}")
