"""A real browser for the pages: Chromium, headless, with no way out."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    # Fonts and scroll bars as on any machine.
    *("--hide-scrollbars", "--force-device-scale-factor=1"),
)

SECONDS = 60
"""For anything to happen in the browser: a machine may be busy."""

DRAWN = """
const done = arguments[arguments.length - 1];
// Pages without charts that a script draws have no such object.
const { drawn: charts, timelineDrawn } = window.deepprof ?? {};
const drawn = Promise.all([charts, timelineDrawn]);
drawn.then(() => done(null), (error) => done(String(error)));
"""


@dataclass
class Page:
    """A page that is open in the browser."""

    driver: Any
    url: str

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def command(self, name: str, **parameters: Any) -> Any:
        return self.driver.execute_cdp_cmd(name, parameters)

    def messages(self) -> list[str]:
        """What the console said since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """What was asked for since the last call, but for the page itself and data: addresses."""
        events = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        urls = [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in urls if url != self.url and not url.startswith(("data:", "blob:"))]

    def wait(self, script: str, seconds: float = SECONDS) -> Any:
        """The script's value as soon as it is true."""
        end = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.02)
        return value

    def show(self, element_id: str) -> None:
        """Scroll to an element at once: a smooth scroll would move it from under the mouse."""
        self.run(
            "document.getElementById(arguments[0])"
            ".scrollIntoView({block: 'center', behavior: 'instant'})",
            element_id,
        )

    def drag(self, x1: float, x2: float, y: float) -> None:
        """Press the mouse at (x1, y), move to (x2, y), let go."""
        mouse = {"button": "left", "clickCount": 1, "y": y}
        self.command("Input.dispatchMouseEvent", type="mousePressed", x=x1, **mouse)
        for step in range(1, 6):
            at = x1 + (x2 - x1) * step / 5
            self.command(
                "Input.dispatchMouseEvent", type="mouseMoved", x=at, **mouse | {"buttons": 1}
            )
        self.command("Input.dispatchMouseEvent", type="mouseReleased", x=x2, **mouse)


def start_driver(profile: Path) -> Any:
    """A headless Chromium with its driver; None where this machine has none."""
    binary = shutil.which("chromium") or shutil.which("google-chrome")
    server = shutil.which("chromedriver")
    if binary is None or server is None:
        return None
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(server))
    started.set_script_timeout(SECONDS)
    return started


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One Chromium for all tests; skips where there is none."""
    pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    started = start_driver(tmp_path_factory.mktemp("profile"))
    if started is None:
        pytest.skip("no Chromium with chromedriver on the PATH")
    yield started
    started.quit()


@pytest.fixture
def open_page(driver: Any) -> Any:
    """`open_page(path, width=, height=, dark=)` opens a file and waits for its charts."""

    def open_(path: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> Page:
        page = Page(driver, path.as_uri())
        page.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.command("Emulation.setEmulatedMedia", media="", features=[scheme])
        # From another page: the driver may return before the last one is gone, or this one there.
        driver.get("about:blank")
        page.wait("return location.href === 'about:blank'")
        page.messages(), page.requests()
        driver.get(page.url)
        page.wait("return location.href !== 'about:blank' && document.readyState === 'complete'")
        failure = driver.execute_async_script(DRAWN)
        assert failure is None, failure
        return page

    return open_


@pytest.fixture(scope="session")
def report_of(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """`report_of(run)` is the file of a run's report, written once a session."""
    from nsys_deepprof import open_trace
    from nsys_deepprof.analyses.report_data import report_data
    from nsys_deepprof.reports.html import render

    folder = tmp_path_factory.mktemp("reports")
    made: dict[Path, Path] = {}

    def make(run: Path) -> Path:
        if run not in made:
            target = folder / f"{len(made)}-{run.stem}.html"
            target.write_text(render(report_data(open_trace(run))), encoding="utf-8")
            made[run] = target
        return made[run]

    return make
