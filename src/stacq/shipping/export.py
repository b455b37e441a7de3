"""From a policy, or from what a training left, to a file that a robot can run."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, get_args

from stacq.core.errors import InputError, check_choice
from stacq.core.files import check_writable, exists, write_bytes
from stacq.policies import Policy
from stacq.shipping.graph import onnx_bytes
from stacq.shipping.header import header_text
from stacq.shipping.shipment import Shipment, shipment

Format = Literal["onnx", "c"]
ENDINGS: dict[Format, str] = {"onnx": ".onnx", "c": ".h"}
PLAIN = re.compile(r"[A-Za-z](_?[A-Za-z0-9]){0,39}")  # no two underscores in a row, which belong to the compiler


def export(
    policy: Policy | Path | str,
    out: Path | str | None = None,
    *,
    format: Format | None = None,
    seed: int | None = None,
    name: str = "policy",
    sample: bool = False,
    observation_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    force: bool = False,
    tell: Callable[[str], object] = lambda text: None,
) -> Path:
    """Write a policy, its file, or one seed of a training run as an ONNX graph (.onnx) or a C header (.h).

    The normaliser and the bounds of the actions are inside. Of several seeds the one with the best final score is
    taken, and the first if there are no scores. `sample` keeps the chance of a stochastic policy: the graph then has
    a second input, `noise`, of standard normal numbers. `name` is that of the graph, and the first part of all names
    in C.
    """
    chosen, path = _target(out, format, name)
    if exists(path) and not force:
        raise InputError("this file exists already", where=path, fix="choose another --out, or add --force")
    if chosen == "c" and sample:
        raise InputError(
            "a C header has no chance", where=path, expected="--sample with --format onnx", fix="leave --sample out"
        )
    found = shipment(policy, seed, {"observation_names": observation_names, "action_names": action_names})
    check_writable(path)
    write_bytes(path, _contents(found, chosen, name, sample=sample))
    if found.chosen:
        tell(found.chosen)
    return path


def _contents(found: Shipment, format: Format, name: str, *, sample: bool) -> bytes:
    facts = {**found.facts, "acts": "by chance, from its noise" if sample else "without chance"}
    if format == "c":
        return header_text(found.policy, name, facts).encode("ascii")
    return onnx_bytes(found.policy, name, facts, sample=sample)


def _target(out: Path | str | None, format: Format | None, name: str) -> tuple[Format, Path]:
    """The format, by its name or by the ending of the file, and the file, by default called after the policy."""
    if not PLAIN.fullmatch(name):
        raise InputError(
            f"the name {name!r}",
            where="export",
            expected="a letter, then letters and digits with single underscores between them, 40 or fewer",
            fix="use --name policy",
        )
    known = {ending: key for key, ending in ENDINGS.items()}
    chosen = format if format is not None else known.get(Path(out or "").suffix)
    if chosen is None:
        raise InputError(
            "neither the format nor the ending of the file says what to write",
            where=out or "export",
            expected="--format onnx or --format c, or a file that ends in .onnx or .h",
            fix="add --format",
        )
    check_choice("format", chosen, get_args(Format), where="export")
    path = Path(out or f"{name}{ENDINGS[chosen]}")
    if path.suffix != ENDINGS[chosen]:
        raise InputError(
            f"'{path.suffix}' is not written", where=path, expected=ENDINGS[chosen], fix="choose another --out"
        )
    return chosen, path
