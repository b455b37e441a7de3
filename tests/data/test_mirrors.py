"""Which servers are asked, in which order."""

from pathlib import Path

import pytest

from loopback import FAST, INFO, PAYLOAD, REMOTE, Server, give, status
from stacq.core.errors import InputError
from stacq.data.download import download
from stacq.data.load import cached_file
from stacq.data.mirrors import DEFAULT_MIRRORS, mirror_urls
from stacq.data.registry import DATASETS, find

pytestmark = [pytest.mark.usefixtures("cache"), pytest.mark.filterwarnings("ignore:nothing vouches")]


@pytest.mark.parametrize("code", [401, 403, 404, 410])
def test_refusal_moves_on_at_once(server: Server, code: int) -> None:
    mirrors = [server.mirror("a", status(code)), server.mirror("b", give())]
    assert download(INFO, mirrors=mirrors, **FAST).read_bytes() == PAYLOAD
    assert [mirror for mirror, *_ in server.requests] == ["a", "b"]


def test_strange_success_moves_on(server: Server) -> None:
    mirrors = [server.mirror("a", status(204)), server.mirror("b", status(206)), server.mirror("c", give())]
    assert download(INFO, mirrors=mirrors, **FAST).read_bytes() == PAYLOAD


def test_all_mirrors_failing_are_listed_with_ways_out(server: Server) -> None:
    mirrors = [server.mirror("a", status(403)), server.mirror("b", status(404)), server.mirror("c", status(500))]
    with pytest.raises(InputError) as caught:
        download(INFO, mirrors=mirrors, **FAST)
    text = str(caught.value)
    for mirror, reason in zip(mirrors, ("403 Forbidden", "404 Not Found", "500 .*3 attempts"), strict=True):
        assert [line for line in text.splitlines() if line.strip().startswith(f"{mirror}/{REMOTE}: {reason[:3]}")]
    assert "3 attempts" in text
    assert "STACQ_MIRRORS" in text and str(cached_file(INFO)) in text
    assert "stacq data generate stacq/hopper-medium-v0" in text
    assert len(server.requests) == 2 + FAST["attempts"]


def test_a_regenerated_twin_and_minari_are_both_named(server: Server) -> None:
    with pytest.raises(InputError, match=r"stacq/antmaze-umaze-v0.*minari download D4RL/antmaze/umaze-v1"):
        download(find("antmaze-umaze-v2"), mirrors=[server.mirror("a", status(404))], **FAST)


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ("/x", f"/x/{REMOTE}"),
        ("/x/", f"/x/{REMOTE}"),
        ("/x/{path}?raw=1", f"/x/{REMOTE}?raw=1"),
        ("/x/{file}", f"/x/{Path(REMOTE).name}"),
    ],
)
def test_templates(server: Server, template: str, path: str) -> None:
    server.mirror("x", give())
    download(INFO, mirrors=[f" http://127.0.0.1:{server.server_port}{template} "], **FAST)
    assert server.paths == [path]


def test_argument_then_environment_then_config(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = (server.mirror(name, status(404)) for name in "abc")
    (cache / "config.toml").write_text(f'[download]\nmirrors = ["{c}"]\n')
    with pytest.raises(InputError):
        download(INFO, **FAST)
    monkeypatch.setenv("STACQ_MIRRORS", f"{b}, {c},")
    with pytest.raises(InputError):
        download(INFO, **FAST)
    with pytest.raises(InputError):
        download(INFO, mirrors=[a], **FAST)
    assert [mirror for mirror, *_ in server.requests] == ["c", "b", "c", "a"]


BERKELEY = f"rail.eecs.berkeley.edu/datasets/offline_rl/{REMOTE}"
HUGGING_FACE = "https://huggingface.co/datasets/imone/D4RL/resolve/main/hopper_medium-v2.hdf5"


@pytest.mark.parametrize("config", [None, "[other]\nx = 1\n", "[download]\n"])
def test_defaults_stand_where_nothing_is_said(cache: Path, config: str | None) -> None:
    if config is not None:
        (cache / "config.toml").write_text(config)
    verifiable = mirror_urls(INFO, None, verifiable=True)
    assert verifiable == [f"https://{BERKELEY}", HUGGING_FACE, f"http://{BERKELEY}"]
    assert len(DEFAULT_MIRRORS) == 3


def test_what_cannot_be_checked_comes_encrypted(cache: Path) -> None:
    """Unless the user says otherwise, in any of the three places."""
    assert mirror_urls(INFO, None, verifiable=False) == [f"https://{BERKELEY}", HUGGING_FACE]
    (cache / "config.toml").write_text("[download]\nmirrors = ['http://x']")
    assert mirror_urls(INFO, None, verifiable=False) == [f"http://x/{REMOTE}"]
    assert mirror_urls(INFO, ["http://y"], verifiable=False) == [f"http://y/{REMOTE}"]


@pytest.mark.parametrize(
    "config",
    [
        b"[download",
        b"\xff\xfe",
        b"download = 3",
        b"[download]\nmirrors = 'http://x'",
        b"[download]\nmirrors = [1]",
        b"[download]\nmirrors = []",
    ],
)
def test_malformed_config(cache: Path, config: bytes) -> None:
    (cache / "config.toml").write_bytes(config)
    with pytest.raises(InputError, match=r"mirrors|config"):
        download(INFO, **FAST)


@pytest.mark.parametrize(
    "mirror", ["", "rail.eecs", "ftp://x/{path}", "file:///etc", "http://", "http://[x", "http://x:y", "http://a b"]
)
def test_mirror_that_is_no_address(mirror: str) -> None:
    with pytest.raises(InputError, match="no web address"):
        download(INFO, mirrors=[mirror], **FAST)


def test_address_that_only_the_network_layer_refuses() -> None:
    with pytest.raises(InputError, match="not a usable address"):
        download(INFO, mirrors=[f"http://{'a' * 70}.example"], **FAST)


@pytest.mark.parametrize("name", ["stacq/hopper-medium-v0", "mujoco/hopper/medium-v0"])
def test_what_is_not_d4rl_is_answered_with_its_command(name: str) -> None:
    command = f"stacq data generate {name}" if name.startswith("stacq") else f"minari download {name}"
    with pytest.raises(InputError, match=command):
        download(find(name))


def test_file_names_are_keys() -> None:
    """The hash list and the cache know files by name alone."""
    remotes = [info.remote for info in DATASETS.values() if info.remote]
    assert len({Path(remote).name for remote in remotes}) == len(remotes)
