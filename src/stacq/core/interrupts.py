"""Being stopped: SIGTERM unwinds like Ctrl-C, and both can be held back until the work is in a state to be kept."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived."""


@contextlib.contextmanager
def terminate_as_interrupt() -> Iterator[None]:
    """Let SIGTERM unwind the stack like Ctrl-C, so that files are closed and workers ended."""

    def stop(number: int, _: object) -> None:
        raise Terminated(number)

    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


class Held:
    """The stop that was asked for while it was held back, if any."""

    def __init__(self) -> None:
        self._act: Callable[[], object] | None = None

    @property
    def asked(self) -> bool:
        return self._act is not None

    def hold(self, act: Callable[[], object]) -> None:
        """Keep it for later; the second one is not kept waiting."""
        if self.asked:
            act()
        self._act = act

    def deliver(self) -> None:
        """Stop now, if it was asked for."""
        act, self._act = self._act, None
        if act is not None:
            act()


@contextlib.contextmanager
def held_back() -> Iterator[Held]:
    """Hold Ctrl-C and SIGTERM back until `deliver` is called, or the end; a second one is not held back.

    Python handles signals in its main thread alone: in any other there is nothing to hold back. A signal that Python
    does not handle, such as SIGTERM outside of `terminate_as_interrupt`, ends the process as ever.
    """
    held = Held()
    in_main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM) if in_main}
    try:
        for number, handler in handlers.items():
            if callable(handler):
                signal.signal(number, _holding(held, handler))
        yield held
    finally:
        for number, handler in handlers.items():
            if callable(handler):
                signal.signal(number, handler)
    held.deliver()


Handler = Callable[[int, FrameType | None], object]


def _holding(held: Held, handler: Handler) -> Handler:
    return lambda number, frame: held.hold(lambda: handler(number, frame))
