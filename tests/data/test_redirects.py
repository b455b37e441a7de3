"""Where servers send a client, over what, and what they say."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopback import DRIPS, FAST, INFO, PAYLOAD, Server, give, leave_part, leftovers, ranges, status, stream
from stacq.core.errors import InputError
from stacq.data.download import download
from stacq.data.load import cached_file

pytestmark = [pytest.mark.usefixtures("cache"), pytest.mark.filterwarnings("ignore:nothing vouches")]


@pytest.mark.parametrize("target", ["ftp://127.0.0.1/x", "file:///etc/passwd", "data:,x", "gopher://x", "javascript:x"])
def test_redirects_leave_the_web_nowhere(server: Server, target: str) -> None:
    with pytest.raises(InputError, match=r"302|not followed"):
        download(INFO, mirrors=[server.mirror("a", status(302, Location=target))], **FAST)
    assert len(server.requests) == 1 and leftovers() == []


def test_redirects_in_a_circle(server: Server) -> None:
    server.mirror("b", status(302, Location="/a/x"))
    with pytest.raises(InputError, match=r"302 .*infinite loop"):
        download(INFO, mirrors=[server.mirror("a", status(302, Location="/b/x"))], **FAST)


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if not shutil.which("openssl"):
        pytest.skip("no openssl to make a certificate with")
    path = tmp_path / "certificate.pem"
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-x509", "-days", "2"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", *kind, *names, "-keyout", str(path), "-out", str(tmp_path / "public.pem")]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    with open(path, "a") as file:
        file.write((tmp_path / "public.pem").read_text())
    return path


@pytest.fixture
def encrypted(cache: Path, certificate: Path) -> Iterator[Server]:
    with Server(certificate) as running:
        yield running


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))


def test_an_unknown_certificate_is_final(encrypted: Server, server: Server) -> None:
    with pytest.raises(InputError, match=r"certificate is not accepted: self.signed certificate"):
        download(INFO, mirrors=[encrypted.mirror("a", give())], attempts=9)
    assert encrypted.requests == []
    mirrors = [encrypted.mirror("a", give()), server.mirror("b", give())]
    assert download(INFO, mirrors=mirrors, **FAST).read_bytes() == PAYLOAD


def test_https_is_not_left_for_http(encrypted: Server, server: Server, trusted: None) -> None:
    """At once, or by way of another encrypted place; towards https it may go."""
    plain = server.mirror("plain", give())
    encrypted.mirror("second", status(302, Location=plain))
    for first in (plain, "/second/x"):
        with pytest.raises(InputError, match=r"redirects from https to http:.*not followed"):
            download(INFO, mirrors=[encrypted.mirror("a", status(302, Location=first))], **FAST)
    assert server.requests == []
    safe = encrypted.mirror("safe", give())
    assert download(INFO, mirrors=[server.mirror("b", status(302, Location=safe))], **FAST).read_bytes() == PAYLOAD


def test_encrypted_transfers_resume_and_are_timed(encrypted: Server, trusted: None) -> None:
    said: list[str] = []
    script = [give(stop=3000, how="hang"), DRIPS["size"], give()]
    path = download(INFO, mirrors=[encrypted.mirror("a", *script)], attempts=3, delay=0, timeout=0.5, tell=said.append)
    assert path.read_bytes() == PAYLOAD
    assert ranges(encrypted) == [None, "bytes=3000-", None]
    assert len(said) == 1 and "unencrypted" not in said[0]


# What servers say


@pytest.mark.parametrize("code", [404, 500, 206])
def test_control_characters_do_not_reach_the_terminal(server: Server, code: int) -> None:
    nasty = b"HTTP/1.1 %d \x1b[2J\x07gone\x85\x00" % code + b"z" * 5000 + b"\r\nContent-Length: 0\r\n\r\n"
    with pytest.raises(InputError, match=r"\\x1b\[2J\\x07gone") as caught:
        download(INFO, mirrors=[server.mirror("a", stream(nasty, b"", most=0))], **FAST)
    text = str(caught.value)
    assert text.replace("\n", "").isprintable() and len(text) < 1500


@pytest.mark.parametrize("first", [b"\x1b]0;title\x07 220 mail", b"HTTP/9.9 \x1b[2J 200"])
def test_answers_that_are_not_http_are_told_plainly(server: Server, first: bytes) -> None:
    with pytest.raises(InputError, match="connection failed") as caught:
        download(INFO, mirrors=[server.mirror("a", stream(first + b"\r\n\r\n", b"", most=0))], **FAST)
    assert str(caught.value).replace("\n", "").isprintable()


def test_redirect_targets_are_shown_escaped(server: Server) -> None:
    with pytest.raises(InputError) as caught:
        download(INFO, mirrors=[server.mirror("a", status(302, Location="gopher://x/\x1b[2J"))], **FAST)
    assert str(caught.value).replace("\n", "").isprintable()


@pytest.mark.parametrize("etag", ['"\x1b[2J"', '"' + "x" * 10_000 + '"', '"é"'])
def test_an_odd_validator_is_not_sent_back(server: Server, etag: str) -> None:
    leave_part(server, etag=etag)
    assert download(INFO, mirrors=[server.mirror("a", give())], **FAST).read_bytes() == PAYLOAD
    assert ranges(server) == [None]


@pytest.mark.parametrize("stated", ["bytes 4000-4001/" + "9" * 5000, "bytes " + "9" * 5000 + "-1/2", "bytes", "\x1b"])
def test_a_senseless_range_is_no_traceback(server: Server, stated: str) -> None:
    leave_part(server)
    answer = b'HTTP/1.1 206 x\r\nETag: "one"\r\nContent-Range: ' + stated.encode() + b"\r\nContent-Length: 1\r\n\r\n"
    mirrors = [server.mirror("a", stream(answer + PAYLOAD[4000:4001], b"", most=0), give())]
    assert download(INFO, mirrors=mirrors, **FAST).read_bytes() == PAYLOAD
    assert cached_file(INFO).exists() and leftovers() == []
