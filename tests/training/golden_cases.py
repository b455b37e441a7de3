"""Numbers of short seeded runs, kept in `golden.json`. After a deliberate change: python tests/training/golden_cases.py

They are means of metrics and norms of parameters, not hashes: processors differ in the last digit, and these do not
show it.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parent / "golden.json"
Numbers = dict[str, float]


def of_run(directory: Path) -> Numbers:
    """The last metrics of every seed, and how large its policy's arrays are."""
    from safetensors.numpy import load_file

    from stacq.runs.directory import read_metrics

    found: Numbers = {}
    for line in read_metrics(directory):
        for name, value in line.items():
            if name not in ("time", "step", "seed") and isinstance(value, float | int):
                found[f"seed {line['seed']}: {name}"] = float(value)
    for path in sorted((directory / "policies").iterdir()):
        for name, array in load_file(path).items():
            key = f"{path.stem}: norm of {part_of(name)}"
            found[key] = float(np.hypot(found.get(key, 0.0), np.linalg.norm(array.astype(np.float64))))
    return found


def part_of(name: str) -> str:
    """Arrays of a large network count together: the small ones among them differ by percents between processors."""
    deep = name.count(".") > 1 and not name[-1].isdigit()
    return name.split(".")[0] if deep else name


def of_models() -> Numbers:
    """The dynamics that all of these runs share, their predictions, and the reachable sets."""
    from training_cases import dataset, models

    dynamics, sets = models()
    data = dataset()
    seen, done = data.observations[:50].astype(np.float32), data.actions[:50].astype(np.float32)
    predicted = np.asarray(dynamics.predict(seen, done), np.float64)
    weights = [np.asarray(weight, np.float64) for weight in dynamics.models.inverse.weights]
    return {
        "rows": float(len(data)),
        "mean prediction": float(np.abs(predicted).mean()),
        "norm of the inverse weights": float(np.sqrt(sum((weight**2).sum() for weight in weights))),
        "reachable pairs": float(len(sets.indices)),
    }


def differences(found: Numbers, kept: Numbers, tolerance: float = 2e-3) -> list[str]:
    """What is missing, new or other."""
    names = sorted({*found, *kept})
    lost = [name for name in names if name not in found or name not in kept]
    return lost + [
        f"{name}: {found[name]:.6g}, kept {kept[name]:.6g}"
        for name in names
        if name not in lost and abs(found[name] - kept[name]) > tolerance * max(abs(kept[name]), 0.01)
    ]


def changes(name: str, found: Numbers) -> list[str]:
    """What differs from the numbers that are kept.

    Deep networks differ by more from processor to processor, and from compilation to compilation: a plan's value, at
    the end of a chain of steps, by 1.4 percent between two settings of the compiler.
    """
    if not name.startswith("diffuser"):
        return differences(found, kept(name), 2e-3)
    plans, others = ({key: found[key] for key in found if key.endswith("plan_value") == each} for each in (True, False))
    told = kept(name)
    known = {key: told[key] for key in told if key.endswith("plan_value")}
    rest = {key: told[key] for key in told if key not in known}
    return differences(plans, known, 3e-2) + differences(others, rest, 1e-2)


def kept(name: str) -> Numbers:
    found: dict[str, Numbers] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return found.get(name, {})


def variants() -> tuple[str, ...]:
    """Algorithm and variant, of all but the ones that the fast tests run."""
    from training_cases import dataset

    from stacq import algos
    from stacq.algos.settings import recommended

    found = [algos.find(name) for name in algos.BUILT_IN]
    pairs = [(algorithm, variant) for algorithm in found for variant in algorithm.variants]
    return tuple(f"{each.name} {variant}" for each, variant in pairs if variant != recommended(each, dataset().name))


def made(name: str, directory: Path) -> Numbers:
    """The numbers of a new run of an algorithm, or of "algorithm variant"."""
    from training_cases import options, plan, run_job

    algorithm, _, variant = name.partition(" ")
    chosen = options(algorithm, variant=variant) if variant else options(algorithm)
    run_job(plan(chosen), out=directory)
    return of_run(directory)


def write(names: tuple[str, ...]) -> None:
    all_kept: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            all_kept[name] = made(name, Path(folder) / "run")
    all_kept["models"] = of_models()
    rounded = {
        name: {key: float(f"{value:.6g}") for key, value in sorted(numbers.items())}
        for name, numbers in sorted(all_kept.items())
    }
    GOLDEN.write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    from stacq.algos import BUILT_IN

    write(tuple(sys.argv[1:]) or (*BUILT_IN, *variants()))
