"""A headless Chromium that loads pages from this machine."""

import json
import shutil
import subprocess
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest


def browser():
    """Return the path of Chromium; without it the test is skipped."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("chromium is absent; Debian has it as the package chromium")
    return program


def answer_of(program, folder, *, seconds):
    """Run a page of JavaScript that serves files of `folder`; return the JSON that it posts."""
    posted = threading.Event()
    answers = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            if self.path != "/program":
                super().do_GET()
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(f"<!doctype html><body><script>{program}</script>".encode())

        def do_POST(self):
            answers.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()
            posted.set()

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as profile:
        process = subprocess.Popen(
            [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1600,1000",
             f"--user-data-dir={profile}", "--remote-debugging-port=0",
             f"http://127.0.0.1:{server.server_port}/program"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            assert posted.wait(seconds), f"no answer from the browser within {seconds} s"
        finally:
            process.terminate()
            process.wait()
            server.shutdown()
            server.server_close()
    return answers[0]
