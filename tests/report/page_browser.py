"""A headless Chromium spoken to over its debugging pipe: no port, no extra package."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--disable-sync",
    "--proxy-server=127.0.0.1:9",  # nobody listens there: what the browser asks for itself goes nowhere
    "--remote-debugging-pipe",
)
LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)
PREFERENCES = {"net": {"network_prediction_options": 2}}  # no connections on suspicion
PATIENCE = 60.0


def find_browser() -> str | None:
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


class Page:
    """One tab, with a proxy of its own for all that it asks for; every event the browser reports is kept."""

    def __init__(self, commands: int, answers: int, proxy: int) -> None:
        self._commands, self._answers = commands, answers
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        address = {"proxyServer": f"127.0.0.1:{proxy}", "proxyBypassList": "<-loopback>"}
        context = self.call("Target.createBrowserContext", **address)["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(PATIENCE)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])

    def _next(self, patience: float) -> dict[str, Any]:
        end = time.monotonic() + patience
        while b"\0" not in self._rest:
            if not select.select([self._answers], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._answers, 1 << 20)
            assert part, "the browser has gone"
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, path: Path, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        self.shape(width, height, scheme)
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.until("document.readyState === 'complete'")

    def shape(self, width: int, height: int, scheme: str) -> None:
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def value(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str) -> None:
        end = time.monotonic() + PATIENCE
        while not self.value(expression):
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.05)

    def key(self, key: str, code: int, text: str = "") -> None:
        common = {"key": key, "code": key if len(key) > 1 else "Space", "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def screenshot(self, *, whole: bool = False) -> bytes:
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"])


@contextmanager
def chromium(program: str, proxy: int = 9) -> Iterator[Page]:
    """A tab of a fresh browser with a profile of its own, ended with the block."""
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        (Path(profile) / "Default").mkdir()
        (Path(profile) / "Default" / "Preferences").write_text(json.dumps(PREFERENCES))
        arguments = [program, *SWITCHES, f"--user-data-dir={profile}"]
        browser = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(to_read), str(from_write), *arguments],
            pass_fds=(to_read, from_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": profile},
        )
        os.close(to_read)
        os.close(from_write)
        try:
            yield Page(to_write, from_read, proxy)
        finally:
            os.close(to_write)  # the browser ends when its pipe does
            try:
                browser.wait(10)
            except subprocess.TimeoutExpired:
                browser.kill()
                browser.wait()
            os.close(from_read)
