"""A web server of somebody else, and what the scripts and forms of its page may try."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from playwright.sync_api import Page

SECONDS = 120.0

# Everything a script can try, each with a body of its own.
ATTEMPTS = (
    "fetch(url, {method: 'POST', mode: 'no-cors', headers: {'Content-Type': 'text/plain'}, body})",
    "fetch(url, {method: 'POST', mode: 'no-cors', body, "
    "headers: {'Content-Type': 'application/x-www-form-urlencoded'}})",
    "fetch(url, {method: 'POST', mode: 'no-cors', body: new Blob([body])})",
    "fetch(url, {method: 'POST', headers: {'Content-Type': 'application/json'}, body})",
    "navigator.sendBeacon(url, body)",
    "fetch(url, {method: 'POST', mode: 'no-cors', referrerPolicy: 'no-referrer', body})",
)
FORM = """
([url, body]) => {
  const frame = document.createElement('iframe');
  frame.name = 'target';
  document.body.append(frame);
  const form = document.createElement('form');
  Object.assign(form, {method: 'post', action: url, enctype: 'text/plain', target: 'target'});
  const field = document.createElement('input');
  // The form puts a `=` between the two, which ends up in a member that nobody reads.
  Object.assign(field, {name: body.slice(0, -1) + ', "x": "', value: '"}'});
  form.append(field);
  document.body.append(form);
  form.submit();
}
"""


class _EmptyPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>another site</title><body>")

    def log_message(self, *_: Any) -> None:
        return


@contextmanager
def served_page() -> Iterator[int]:
    """The port of an empty page, under any name that leads here."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _EmptyPage) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def wait_on(page: Page, condition: Callable[[], bool]) -> None:
    """Wait while the page goes on; its events are reported only meanwhile."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        page.wait_for_timeout(50)
