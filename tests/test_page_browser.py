"""The auditor's page in a browser engine: nothing is requested, nothing overflows, it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest
from test_page import charge_often, varied

from skriemdp.ledger._accountant import PrivacyAccountant
from skriemdp.page import gather, to_html

WIDTH = 320

# A process of its own: Qt wants the main thread, and its flags are read once.
SCRIPT = """
import json, sys
from PySide6.QtCore import QTimer, QUrl
from PySide6.QtWidgets import QApplication
from PySide6.QtWebEngineCore import QWebEnginePage, QWebEngineUrlRequestInterceptor
from PySide6.QtWebEngineWidgets import QWebEngineView

class Requests(QWebEngineUrlRequestInterceptor):
    seen = []
    def interceptRequest(self, info):
        self.seen.append(info.requestUrl().toString())

class Page(QWebEnginePage):
    said = []
    def javaScriptConsoleMessage(self, level, message, line, source):
        self.said.append(message)

width, *files = sys.argv[1:]
application, results = QApplication([]), {}
view, requests = QWebEngineView(), Requests()
page = Page(view)
page.setUrlRequestInterceptor(requests)
view.setPage(page)
view.resize(int(width), 640)
view.show()

LOOK = '''JSON.stringify({
  inner: innerWidth, wide: document.documentElement.scrollWidth,
  over: [...document.querySelectorAll("body *")].filter(e => !e.closest(".scroll") &&
        !e.closest("svg") && e.getBoundingClientRect().right > innerWidth + 0.5).length,
  scripts: document.scripts.length, rows: document.querySelectorAll("tr").length,
  planted: typeof planted})'''

def begin():
    if not files:
        print(json.dumps(results), flush=True)
        return application.quit()
    Requests.seen, Page.said = [], []
    view.load(QUrl.fromLocalFile(files[0]))

def loaded(ok):
    assert ok, files[0]
    # One turn of the event loop at the final width before anything is measured.
    QTimer.singleShot(100, lambda: page.runJavaScript(LOOK, measured))

def measured(text):
    results[files[0]] = json.loads(text)
    page.printToPdf(printed)

def printed(data):
    result = results[files.pop(0)]
    result["pdf"] = [bytes(data[:5]).decode("ascii"), len(data)]
    result["requests"], result["console"] = list(Requests.seen), list(Page.said)
    begin()

page.loadFinished.connect(loaded)
QTimer.singleShot(0, begin)
application.exec()
"""


def environment():
    flags = "--disable-gpu"
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        flags += " --no-sandbox"
    return {
        **os.environ,
        "QT_QPA_PLATFORM": "offscreen",
        "QTWEBENGINE_CHROMIUM_FLAGS": flags,
    }


def browse(*files):
    try:
        import PySide6.QtWebEngineWidgets  # noqa: F401
    except ImportError as error:
        pytest.skip(f"needs a browser engine, pip install 'skriemdp[browser]' ({error})")
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), str(WIDTH), *map(str, files)]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return {os.path.basename(name): found for name, found in json.loads(done.stdout).items()}


@pytest.mark.slow
def test_pages_in_a_browser(tmp_path):
    PrivacyAccountant(epsilon=3.0, path=tmp_path / "none.ledger")
    charge_often(tmp_path / "three.ledger", 3)
    charge_often(tmp_path / "many.ledger", 1200)
    charge_often(tmp_path / "huge.ledger", 100_000)
    varied(tmp_path / "varied.ledger")
    names = ("none", "three", "many", "huge", "varied")
    for name in names:
        text = to_html(gather(tmp_path / f"{name}.ledger"))
        (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
    found = browse(*(tmp_path / f"{name}.html" for name in names))
    for name in names:
        result = found[f"{name}.html"]
        assert result["requests"] == [(tmp_path / f"{name}.html").as_uri()]
        assert result["console"] == [] and result["scripts"] == 0
        assert result["inner"] == WIDTH and result["wide"] <= WIDTH and result["over"] == 0
        assert result["pdf"][0] == "%PDF-" and result["pdf"][1] > 2000
    assert found["many.html"]["rows"] > found["three.html"]["rows"] > 0


@pytest.mark.slow
def test_the_browser_sees_what_it_should_not_find(tmp_path):
    """Each finding above can fail: a script, a request and a wide element are noticed."""
    (tmp_path / "bad.html").write_text(
        "<!DOCTYPE html><title>x</title><script>var planted = 1; console.log('ran')</script>"
        "<div style='width: 900px'>wide</div><img src='other.png'>",
        encoding="utf-8",
    )
    result = browse(tmp_path / "bad.html")["bad.html"]
    assert result["scripts"] == 1 and "ran" in result["console"]
    assert result["planted"] == "number"
    assert len(result["requests"]) == 2
    assert result["wide"] > WIDTH and result["over"] > 0
