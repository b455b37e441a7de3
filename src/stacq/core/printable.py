"""Text from outside, made harmless for a terminal, a log and a page."""

import unicodedata

HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # controls, formats such as those that turn the writing round, half characters


def printable(text: object) -> str:
    """One line of text in which every character shows.

    A terminal obeys control characters: they move the cursor, rename the window or hide what stands before them, and
    one that turns the direction of writing makes a name look like another. They appear as their number instead.
    """
    text = str(text)
    return text if text.isprintable() else "".join(map(_shown, text))


def printable_lines(text: object) -> str:
    """The same for text of several lines."""
    return "\n".join(map(printable, str(text).split("\n")))


def hidden(text: str) -> bool:
    """Whether a character of it does not show."""
    return not text.isprintable() and any(unicodedata.category(each) in HIDDEN for each in text)


def _shown(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii") if hidden(character) else character
