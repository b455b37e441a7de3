"""Settings of an algorithm that are typed as options: `--alpha 5` is answered with `--set alpha=5`."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, get_type_hints

from stacq.cli.learn import RunAll, Train
from stacq.core.errors import InputError

VERBS: dict[str, Any] = {"train": Train, "run": RunAll}
LOGS = ("tensorboard", "wandb")


def check_options(arguments: Sequence[str]) -> None:
    """Refuse an option that is none, where it is clear what was meant; the parser answers all others."""
    verb, *rest = arguments or [""]
    if verb not in VERBS:
        return
    known = {*_options(VERBS[verb]), "help", "as", "algo", "set"}
    for place, each in enumerate(rest):
        name, _, value = each.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        if not each.startswith("--") or name in known or name.removeprefix("no_") in known:
            continue
        following = rest[place + 1] if place + 1 < len(rest) else ""
        _refuse(verb, name, value or ("..." if following.startswith("--") else following or "..."))


def _options(kind: Any) -> Iterator[str]:
    """Names of all options of a verb, as fields of nested dataclasses."""
    for name, inner in get_type_hints(kind).items():
        if dataclasses.is_dataclass(inner):
            yield from _options(inner)
        yield name


def _refuse(verb: str, name: str, value: str) -> None:
    if name in LOGS:
        raise InputError(f"there is no option --{name}", where=f"stacq {verb}", fix=f"write `--log {name}`")
    from stacq import algos
    from stacq.algos.settings import OTHER_NAMES

    settings = {field.name for each in algos.BUILT_IN for field in dataclasses.fields(algos.find(each).Config)}
    setting = name if name in settings else OTHER_NAMES.get(name, "")
    if not setting:
        return
    fix = f"write `--set {setting}={value}`"
    if verb != "train":
        fix = f"`stacq {verb}` takes the presets as they are; use `stacq train DATASET --set {setting}={value}`"
    raise InputError(
        f"--{name.replace('_', '-')} is no option: {setting} is a setting of the algorithm",
        where=f"stacq {verb}",
        expected="options as `--help` lists them, settings behind --set",
        fix=fix,
    )
