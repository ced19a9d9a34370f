"""Downloading, for real, from a server on this machine."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tractable.data import DataNotFound, download

NAME = "mushroom/agaricus-lepiota.data"
CONTENT = b"p,x\ne,y\n"


@dataclass
class Server:
    """What a server on this machine answers to each path, and which paths it was asked for."""

    address: str = ""
    answers: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append(self.path)
            answers = state.answers.get(self.path, [(404, b"")])
            status, content = answers.pop(0) if len(answers) > 1 else answers[0]
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        state.address = f"http://127.0.0.1:{http.server_port}"
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.delenv(download.FOLDER, raising=False)
        monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
        monkeypatch.setitem(download.SHA256, NAME, hashlib.sha256(CONTENT).hexdigest())
        mirrors = (f"{state.address}/first/", f"{state.address}/second/")
        monkeypatch.setitem(download._MIRRORS, "mushroom/", mirrors)
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield state
        http.shutdown()
        thread.join()


FIRST = "/first/agaricus-lepiota.data"
SECOND = "/second/agaricus-lepiota.data"


def cached(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "tractable" / NAME


def test_a_download_is_kept_in_the_cache(server, tmp_path):
    server.answers[FIRST] = [(200, CONTENT)]
    assert download.locate(NAME) == cached(tmp_path)
    assert cached(tmp_path).read_bytes() == CONTENT
    download.locate(NAME)
    assert server.asked == [FIRST]


def test_a_failed_download_is_tried_again(server):
    server.answers[FIRST] = [(503, b"")] * download.RETRIES + [(200, CONTENT)]
    assert download.locate(NAME).read_bytes() == CONTENT
    assert server.asked == [FIRST] * (download.RETRIES + 1)


def test_the_next_mirror_serves_when_the_first_fails(server):
    server.answers[SECOND] = [(200, CONTENT)]
    assert download.locate(NAME).read_bytes() == CONTENT
    assert server.asked[-1] == SECOND


def test_a_corrupt_download_is_refused_and_not_kept(server, tmp_path):
    server.answers[FIRST] = server.answers[SECOND] = [(200, b"something else")]
    with pytest.raises(DataNotFound, match=hashlib.sha256(b"something else").hexdigest()):
        download.locate(NAME)
    assert not cached(tmp_path).exists()


def test_a_corrupt_cache_is_downloaded_again(server, tmp_path):
    server.answers[FIRST] = [(200, CONTENT)]
    cached(tmp_path).parent.mkdir(parents=True)
    cached(tmp_path).write_bytes(b"half")
    assert download.locate(NAME).read_bytes() == CONTENT


def test_the_local_folder_spares_the_download(server, make_folder):
    folder = make_folder({NAME: CONTENT})
    assert download.locate(NAME) == folder / NAME
    assert server.asked == []


def test_the_error_names_every_address_that_failed(server):
    with pytest.raises(DataNotFound) as error:
        download.locate(NAME)
    assert f"{server.address}{FIRST}: HTTPError: 404" in str(error.value)
    assert f"{server.address}{SECOND}: HTTPError: 404" in str(error.value)


def test_error_without_network_connection(server, monkeypatch):
    monkeypatch.setitem(download._MIRRORS, "mushroom/", ("http://127.0.0.1:9/",))  # nobody listens
    with pytest.raises(
        DataNotFound, match=r"127\.0\.0\.1:9/agaricus-lepiota\.data: ConnectionError"
    ):
        download.locate(NAME)
