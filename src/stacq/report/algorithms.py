"""What there is to train with, as text."""

from collections.abc import Iterator

from stacq import algos


def algorithms_text() -> str:
    """Every algorithm: what it does, what it needs, its variants."""
    return "\n\n".join("\n".join(_lines(name)) for name in algos.names())


def _lines(name: str) -> Iterator[str]:
    found = algos.find(name)
    yield f"{name}: {found.title}"
    yield f"  {found.about}"
    yield f"  needs {'dynamics and reachable sets' if found.needs.reachable else 'the data alone'}"
    for variant, what in found.variants.items():
        yield f"  --variant {variant}: {what.about}"
