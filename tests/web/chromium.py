"""A headless Chromium with software WebGPU, spoken to through a pipe in the DevTools protocol: no driver is needed."""

import base64
import functools
import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from tests import needs

FLAGS = (
    "--headless=new", "--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--disable-quic",
    "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--disable-extensions", "--hide-scrollbars", "--remote-debugging-pipe",
    "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",
)  # fmt: skip
PATIENCE = 120  # seconds


class _Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}

    def end_headers(self):
        self.send_header("Cache-Control", "no-store")  # else the browser may answer for a while what it had before
        super().end_headers()

    def log_message(self, *args):
        self.server.asked.append(self.path)


class Site:
    """A folder on localhost. `asked` are the paths that were requested."""

    def __init__(self, folder: Path):
        self.server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(_Quiet, directory=os.fspath(folder))
        )
        self.server.asked = self.asked = []
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://localhost:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class PageError(AssertionError):
    """Something in the page threw, or took too long."""


class Chromium:
    """One browser; `open` gives pages."""

    def __init__(self, *flags: str):
        chromium = needs.chromium()
        self.profile = tempfile.mkdtemp(prefix="chromium-")
        self.camera = Path(self.profile) / "camera.y4m"  # what the camera sees, over and over, where a test writes it
        flags = (*flags, f"--use-file-for-fake-video-capture={self.camera}", f"--user-data-dir={self.profile}")
        to_read, self.out = os.pipe()
        self.back, to_write = os.pipe()

        # The browser reads descriptor 3 and writes descriptor 4; the shell puts them there.
        command = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        self.process = subprocess.Popen(
            ["bash", "-c", command, "chromium", chromium, *FLAGS, *flags],
            pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "XDG_RUNTIME_DIR": self.profile},
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        os.set_blocking(self.back, False)
        self.number, self.rest, self.answers, self.events = 0, b"", {}, []

    def send(self, method: str, session: str | None = None, **params) -> dict:
        """A command of the protocol and its answer."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        stop = time.monotonic() + PATIENCE
        while self.number not in self.answers:
            if time.monotonic() > stop or self.process.poll() is not None:
                raise PageError(f"no answer to {method}")
            self._receive()
        answer = self.answers.pop(self.number)
        if "error" in answer:
            raise PageError(f"{method}: {answer['error']}")
        return answer["result"]

    def _receive(self) -> None:
        try:
            data = os.read(self.back, 1 << 20)
        except BlockingIOError:
            time.sleep(0.01)
            return
        *whole, self.rest = (self.rest + data).split(b"\0")
        for message in map(json.loads, whole):
            if "id" in message:
                self.answers[message["id"]] = message
            else:
                self.events.append(message)

    def open(self, url: str, width: int = 1100, height: int = 800) -> "Page":
        # Storage of its own: sites of other tests may have had the same port.
        context = self.send("Target.createBrowserContext", disposeOnDetach=True)["browserContextId"]
        target = self.send("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, target, session)
        page.size(width, height)
        for domain in ("Page", "Runtime", "Log"):
            page.send(f"{domain}.enable")
        page.send("Page.navigate", url=url)
        return page

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
        os.close(self.out)
        os.close(self.back)
        shutil.rmtree(self.profile, ignore_errors=True)


class Page:
    def __init__(self, browser: Chromium, target: str, session: str):
        self.browser, self.target, self.session = browser, target, session

    def send(self, method: str, **params) -> dict:
        return self.browser.send(method, self.session, **params)

    def size(self, width: int, height: int, scale: float = 1) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
            mobile=width < 600,
        )  # fmt: skip

    def evaluate(self, expression: str):
        """The value of an expression; a promise is waited for."""
        found = self.send(
            "Runtime.evaluate", expression=f"(async () => ({expression}))()", awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            details = found["exceptionDetails"]
            raise PageError(details.get("exception", {}).get("description", details["text"]))
        return found["result"].get("value")

    def wait(self, condition: str, seconds: float = PATIENCE):
        """Until the expression is true; its value."""
        stop = time.monotonic() + seconds
        while True:
            try:
                found = self.evaluate(condition)
            except PageError as error:  # while the page is being replaced
                if "context" not in str(error):
                    raise
                found = None
            if found:
                return found
            if time.monotonic() > stop:
                shown = self.evaluate("document.body?.innerText.slice(0, 2000)")
                raise PageError(f"{condition} did not become true; the page says: {shown}; log: {self.messages()}")
            time.sleep(0.1)

    def choose(self, selector: str, file: Path) -> None:
        """A file for an input element, as if the user had chosen it."""
        expression = f"document.querySelector({json.dumps(selector)})"
        found = self.send("Runtime.evaluate", expression=expression)["result"]["objectId"]
        self.send("DOM.setFileInputFiles", files=[os.fspath(file)], objectId=found)

    def click(self, selector: str) -> None:
        at = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({block: 'center'}); "
            "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        self.mouse("mousePressed", *at)
        self.mouse("mouseReleased", *at)

    def mouse(self, kind: str, x: float, y: float, pressed: bool = True) -> None:
        self.send(
            "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=int(pressed), clickCount=1
        )  # fmt: skip

    def type(self, text: str) -> None:
        self.send("Input.insertText", text=text)

    def key(self, key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    def messages(self) -> list[str]:
        """What the page wrote to the console, and what threw."""
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            if event["method"] == "Runtime.consoleAPICalled":
                found.append(" ".join(str(a.get("value", a.get("description"))) for a in event["params"]["args"]))
            elif event["method"] == "Runtime.exceptionThrown":
                details = event["params"]["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", details["text"]))
            elif event["method"] == "Log.entryAdded":
                found.append(event["params"]["entry"]["text"])
        return found

    def screenshot(self, path: Path) -> None:
        data = self.send("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        self.browser.send("Target.closeTarget", targetId=self.target)
