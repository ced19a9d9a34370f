"""Render pages in headless Chromium and measure them inside the page.

A window of Chromium is at least 500 pixels wide, so a page is shown in a frame of the wanted width.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
WIDE, PHONE = 1280, 390

_MEASURE = """
function measure(frame) {
  const page = frame.contentDocument, width = frame.clientWidth, found = {};
  found.width = width;
  found.needs = page.documentElement.scrollWidth;
  found.cut = [];
  for (const box of page.querySelectorAll('main *, article *')) {
    const style = frame.contentWindow.getComputedStyle(box);
    const shown = box.getClientRects().length > 0;
    const keeps = ['auto', 'scroll', 'hidden', 'clip'].includes(style.overflowX);
    if (shown && keeps && box.clientWidth && box.scrollWidth > box.clientWidth + 1)
      found.cut.push(`${box.tagName}.${box.className}: ${box.textContent.trim().slice(0, 60)}`);
  }
  found.outside = [];
  for (const text of page.querySelectorAll('svg text')) {
    const place = text.getBoundingClientRect();
    if (place.width && (place.left < -1 || place.right > width + 1))
      found.outside.push(text.textContent);
  }
  found.small = [];
  for (const text of page.querySelectorAll('svg text')) {
    const place = text.getBoundingClientRect();
    if (place.height && place.height < 7) found.small.push(text.textContent);
  }
  found.links = [...page.querySelectorAll('a[href]')].map(a => a.getAttribute('href'));
  found.ids = [...page.querySelectorAll('[id]')].map(e => e.id);
  found.pictures = [...page.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src);
  found.words = page.body.innerText.length;
  return found;
}
addEventListener('load', () => {
  const found = [...document.querySelectorAll('iframe')].map(measure);
  document.querySelector('#found').textContent = JSON.stringify(found);
});
"""


@dataclass(frozen=True)
class Seen:
    """What a page is like at a width."""

    width: int
    needs: int
    cut: list[str]
    outside: list[str]
    small: list[str]
    links: list[str]
    ids: list[str]
    pictures: list[str]
    words: int


@dataclass(frozen=True)
class Shown:
    """Return measurements by page and width, and messages of the browser console."""

    pages: list[Seen]
    console: list[str]


def show(folder: Path, pages: list[tuple[str, int]]) -> Shown:
    """Load pages, each at a width; texts of pages go in, and nothing else is loaded."""
    frames = "\n".join(
        f'<iframe style="border:0;width:{width}px;height:900px" '
        f'srcdoc="{html.escape(text, quote=True)}"></iframe>'
        for text, width in pages
    )
    wrapper = folder / "frames.html"
    wrapper.write_text(measuring(frames), encoding="utf-8")
    return run(wrapper.as_uri(), folder)


def measuring(frames: str) -> str:
    """A page that measures the pages in its frames."""
    page = f"<!doctype html><meta charset=utf-8><pre id=found></pre><script>{_MEASURE}</script>"
    return f"{page}{frames}"


def run(address: str, folder: Path, *options: str) -> Shown:
    """What a page that measures others writes down."""
    assert BROWSER is not None
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--enable-logging=stderr", "--virtual-time-budget=5000", "--no-first-run",
         f"--user-data-dir={folder / 'profile'}", *options, "--dump-dom", address],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    held = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert held is not None, done.stderr[-2000:]
    found = json.loads(html.unescape(held[1]))
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return Shown([Seen(**entry) for entry in found], console)
