"""The Prefect UI of a served store, driven by headless Chromium as a person would.

Each page that is looked at leaves a picture in build/screenshots.
"""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from tempfile import TemporaryDirectory
from typing import Literal

from helpers.children import ROOT
from helpers.serving import Served
from playwright.sync_api import Error, Locator, Page, Route, sync_playwright

CHROMIUM = shutil.which("chromium")
PICTURES = ROOT / "build" / "screenshots"
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_LONGEST_WAIT_MS = 180_000
_CLICKS = 6
State = Literal["hidden", "visible"]
_RUN_ID = re.compile(r"/flow-run/([0-9a-f-]{36})")


@dataclass(frozen=True, slots=True)
class PrefectUi:
    """A tab of a browser that shows the UI."""

    page: Page
    url: str
    name: str
    _numbers: "count[int]"

    def picture(self, name: str) -> None:
        """Take a picture of the page, all of it, once nothing moves any more."""
        self.page.wait_for_timeout(1_500)
        path = PICTURES / f"{self.name}-{next(self._numbers):02}-{name}.png"
        self.page.screenshot(path=path, full_page=True)

    def open_deployment(self, job: str) -> None:
        """Find a job among the deployments and open its page."""
        self.page.goto(f"{self.url}/v2/deployments")
        flow = self.page.get_by_role("link", name=job, exact=True)
        row = self.page.get_by_role("row").filter(has=flow)
        row.wait_for()
        self.picture("deployments")
        row.get_by_role("link", name="local").click()
        self.page.get_by_role("button", name="Run", exact=True).wait_for()
        self.picture("deployment")

    def open_form(self) -> None:
        """Choose a custom run."""
        self.page.get_by_role("button", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name="Custom run").click()
        self.page.get_by_role("button", name="Submit").wait_for()
        self.picture("form")

    def select(self, field: str, option: str) -> None:
        """Choose an option of a field."""
        self.page.get_by_role("button", name=f"Select {field}").click()
        self.page.get_by_role("option", name=option).click()

    def fill(self, field: str, value: str) -> None:
        """Type a number or a text into a field."""
        self.page.get_by_label(field).fill(value)

    def fill_optional_number(self, value: str) -> None:
        """Type into the only number of the form that may also be absent."""
        self.page.get_by_role("tab", name="int").click()
        self.page.get_by_role("tabpanel", name="int").get_by_role("spinbutton").fill(value)

    def read_complaint(self, field: str) -> str:
        """Read why the browser does not send the form as it is."""
        said: str = self.page.get_by_label(field).evaluate("field => field.validationMessage")
        return said

    def submit(self) -> None:
        """Send the form."""
        self.page.get_by_role("button", name="Submit").click()

    def start_run(self) -> str:
        """Send the form and follow the note about the run that was made; give its id."""
        note = self.page.get_by_role("link", name="View run")
        self._click_until(self.page.get_by_role("button", name="Submit"), note, "visible")
        note.click()
        self.page.wait_for_url(_RUN_ID)
        found = _RUN_ID.search(self.page.url)
        assert found is not None
        return found[1]

    def wait_for_state(self, flow_run_id: str, name: str) -> None:
        """Wait until the page of a run shows a state."""
        self.open_tab(flow_run_id, "Logs")
        self.page.get_by_role("main").get_by_text(name, exact=True).first.wait_for()
        self.page.reload()
        self.page.get_by_text("Finished in state").last.wait_for()
        self.picture(name.lower())

    def open_tab(self, flow_run_id: str, tab: str) -> None:
        """Open a tab of a run."""
        self.page.goto(f"{self.url}/v2/runs/flow-run/{flow_run_id}?tab={tab}")

    def read_artifact(self, flow_run_id: str, key: str, outcome: str) -> str:
        """Open the artifact of a run that tells this outcome; give what the page shows of it."""
        self.open_tab(flow_run_id, "Artifacts")
        heading = self.page.get_by_role("heading", name=key, exact=True)
        card = self.page.get_by_role("link").filter(has=heading).filter(has_text=outcome)
        card.wait_for()
        self.picture("artifacts")
        card.click()
        panel = self.page.get_by_role("tabpanel", name="Artifact")
        panel.wait_for()
        self.picture(key)
        return panel.inner_text()

    def resume(self, flow_run_id: str, decision: str, *, approver: str, note: str) -> str:
        """Answer a waiting run by its menu; give what the form said about it."""
        self.open_tab(flow_run_id, "Logs")
        self.page.get_by_role("button", name="Open menu").click()
        self.page.get_by_role("menuitem", name="Resume").click()
        dialog = self.page.get_by_role("dialog", name="Resume Flow Run")
        dialog.get_by_label("Approver").wait_for()
        dialog.get_by_text("would remove").wait_for()
        self.picture("question")
        said = dialog.inner_text()
        self.select("Decision", decision)
        self.fill("Approver", approver)
        self.fill("Note", note)
        self.picture("answer")
        self._click_until(dialog.get_by_role("button", name="Resume"), dialog, "hidden")
        return said

    def _click_until(self, button: Locator, change: Locator, state: State) -> None:
        """Click until something comes or goes: a busy server refuses now and then (P2)."""
        for _ in range(_CLICKS - 1):
            button.click()
            with suppress(Error):
                change.wait_for(state=state, timeout=_LONGEST_WAIT_MS / _CLICKS)
                return
        button.click()
        change.wait_for(state=state)


@contextmanager
def browse(served: Served, name: str) -> Iterator[PrefectUi]:
    """Open the UI in a browser of its own, which reaches nothing but the server.

    Args:
        served: The served store.
        name: Begins the names of the pictures.
    """
    with TemporaryDirectory(prefix="memtend-chromium-") as profile, sync_playwright() as driver:
        browser = driver.chromium.launch_persistent_context(
            profile,
            executable_path=CHROMIUM,
            args=_FLAGS,
            env={**os.environ, "HOME": profile, "XDG_CONFIG_HOME": profile},
            viewport={"width": 1280, "height": 900},
            timezone_id="UTC",
        )
        browser.set_default_timeout(_LONGEST_WAIT_MS)
        browser.route(lambda url: not url.startswith(served.url), _refuse)
        ui = PrefectUi(browser.pages[0], served.url, name, count(1))
        try:
            yield ui
        finally:
            ui.picture("end")
            browser.close()


def _refuse(route: Route) -> None:
    route.abort()
