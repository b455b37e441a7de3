"""The console that every verb prints to."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from stacq.core.printable import printable_lines


class Console(RichConsole):
    """Rich's console for text that may come from outside: no markup, no emoji, and no control character gets through.

    Rich itself adds the control sequences for colours and the cursor, after this.
    """

    def __init__(self, *, markup: bool = False, emoji: bool = False, **options: Any) -> None:
        super().__init__(markup=markup, emoji=emoji, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable_lines(segment.text))
