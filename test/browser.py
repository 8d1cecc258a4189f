# SPDX-License-Identifier: MIT
"""A headless Chromium, driven by its DevTools protocol over two pipes: no package is needed."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


class Browser:
    def __init__(self, width=1440, height=900, dark=False):
        self.folder = tempfile.mkdtemp(prefix="tjit-browser-")
        to, self.to = os.pipe()
        self.out, out = os.pipe()
        for fd in (to, out):
            os.set_inheritable(fd, True)
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--user-data-dir=" + self.folder,
                 "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars", "--force-color-profile=srgb", "about:blank"]
        self.process = subprocess.Popen(["sh", "-c", 'exec "$@" 3<&%d 4>&%d' % (to, out), "sh", program()] + flags,
                                        pass_fds=(to, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to)
        os.close(out)
        self.rest, self.number, self.session, self.console = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.dark(dark)

    def dark(self, on):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def read(self, until):
        while b"\0" not in self.rest:
            if not select.select([self.out], [], [], max(0, until - time.time()))[0]:
                raise TimeoutError("the browser does not answer")
            more = os.read(self.out, 1 << 16)
            if not more:
                raise EOFError("the browser has ended")
            self.rest += more
        one, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(one)
        self.note(message)
        return message

    def note(self, message):
        """Errors of scripts, messages of the console, requests that leave the page."""
        method, p = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            d = p["exceptionDetails"]
            self.console.append(d.get("exception", {}).get("description", d["text"]))
        elif method == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
            self.console.append(" ".join(str(a.get("value", a.get("description"))) for a in p["args"]))
        elif method == "Log.entryAdded":
            self.console.append(p["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not p["request"]["url"].startswith(("file:", "data:", "about:", "blob:")):
            self.console.append("a request: " + p["request"]["url"])

    def call(self, method, **params):
        self.number += 1
        number, message = self.number, {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        until = time.time() + 60
        while True:
            got = self.read(until)
            if got.get("id") == number:
                if "error" in got:
                    raise RuntimeError("%s: %s" % (method, got["error"]["message"]))
                return got["result"]

    def run(self, script):
        """The value of an expression, which may be a promise."""
        r = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in r:
            d = r["exceptionDetails"]
            raise RuntimeError(d.get("exception", {}).get("description", d["text"]))
        return r["result"].get("value")

    def wait(self, condition, seconds=20):
        until = time.time() + seconds
        while not self.run(condition):
            if time.time() > until:
                raise TimeoutError("never true: " + condition)
            time.sleep(0.02)

    def open(self, path, route=""):
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url="file://" + os.path.abspath(path) + route)
        self.wait("document.documentElement?.dataset.ready === 'yes'")
        self.settle()

    def settle(self):
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 20))))")

    def go(self, route):
        self.run("location.hash = %s, 0" % json.dumps(route))
        self.settle()

    KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "ArrowDown": (40, ""), "ArrowUp": (38, ""), "ArrowLeft": (37, ""),
            "ArrowRight": (39, "")}

    def key(self, key, shift=False):
        code, text = self.KEYS.get(key, (ord(key.upper()) if len(key) == 1 and key.isalnum() else 0, key if len(key) == 1 else ""))
        common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text):
        for c in text:
            self.key(c)

    def click(self, selector):
        """The middle of the first such element."""
        x, y = self.run("(() => { const r = document.querySelector(%s).getBoundingClientRect(); "
                        "return [r.x + r.width / 2, r.y + r.height / 2]; })()" % json.dumps(selector))
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def screenshot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        self.process.terminate()
        self.process.wait()
        os.close(self.to)
        os.close(self.out)
        shutil.rmtree(self.folder, ignore_errors=True)


def program():
    """The path of Chromium; None: there is none."""
    return next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
