"""What is rounded where: the choice, and what it comes to on a processor."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from stacq.core.types import Precision
from stacq.nn.mlp import each_member, frozen_for, init_ensemble, init_mlp
from stacq.nn.precision import _cpu_multiplies_bfloat16, precision_text, products_of


@pytest.mark.parametrize(
    ("flags", "able"), [("fma avx512f avx512_bf16 avx512vl", True), ("fma avx512f avx512_bf16_emulated", False)]
)
def test_a_cpu_says_whether_it_can_multiply_rounded_factors(
    monkeypatch: pytest.MonkeyPatch, flags: str, able: bool
) -> None:
    monkeypatch.setattr(Path, "read_text", lambda path, encoding: f"flags\t\t: {flags}\nbogomips\t: 4800.00\n")
    assert _cpu_multiplies_bfloat16.__wrapped__() is able


def test_a_system_that_does_not_describe_its_cpu_is_taken_for_an_ordinary_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(path: Path, encoding: str) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", missing)
    assert _cpu_multiplies_bfloat16.__wrapped__() is False


@pytest.mark.parametrize("able", [True, False])
@pytest.mark.parametrize(
    ("precision", "cpu", "gpu"),
    [("auto", "as it is able", "bfloat16"), ("float32", "float32", "float32"), ("bfloat16", "bfloat16", "bfloat16")],
)
def test_frozen_networks_are_rounded_as_was_chosen(
    monkeypatch: pytest.MonkeyPatch, precision: Precision, cpu: str, gpu: str, able: bool
) -> None:
    """A CPU without instructions for it rounds where it is told to, and says that this is slow."""
    monkeypatch.setattr("stacq.nn.precision._cpu_multiplies_bfloat16", lambda: able)
    ensemble = init_ensemble(jax.random.key(4), 3, (20, 64, 5))
    here = cpu.replace("as it is able", "bfloat16" if able else "float32")
    for backend, wanted in (("cpu", here), ("gpu", gpu)):
        frozen = frozen_for(backend, ensemble, precision)
        assert [weight.dtype.name for weight in frozen.weights] == ["float32", wanted]
        assert (frozen is ensemble) == (wanted == "float32")
        assert wanted in precision_text(precision, backend)
    assert ("no instructions" in precision_text(precision, "cpu")) == (precision == "bfloat16" and not able)
    x = jax.random.normal(jax.random.key(5), (50, 20))
    moved = jnp.abs(each_member(frozen_for("cpu", ensemble, precision), x) - each_member(ensemble, x)).max()
    assert (float(moved) > 0) == (here == "bfloat16")


def products(found: Any) -> list[Any]:
    """The precision of every matrix product of a traced program, of programs inside it too."""
    own = [each.params["precision"] for each in found.eqns if each.primitive.name == "dot_general"]
    inner = (value for each in found.eqns for value in jax.tree.leaves(tuple(each.params.values()), is_leaf=_program))
    return own + [each for program in inner if _program(program) for each in products(program.jaxpr)]


def _program(value: Any) -> bool:
    return hasattr(value, "jaxpr")


def test_with_float32_every_product_is_a_full_one_and_otherwise_only_the_first() -> None:
    network, x = init_mlp(jax.random.key(0), (4, 8, 8, 2)), jnp.ones((3, 4))
    traced = jax.make_jaxpr(lambda network, x: jax.grad(lambda n: n(x).sum())(network))
    full = (jax.lax.Precision.HIGHEST, jax.lax.Precision.HIGHEST)
    with products_of("float32"):
        assert set(products(traced(network, x).jaxpr)) == {full}
    for precision in ("auto", "bfloat16"):
        with products_of(precision):
            found = products(traced(network, x).jaxpr)
            assert None in found and full in found
