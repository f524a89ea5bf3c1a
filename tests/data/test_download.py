import contextlib
import gzip
import hashlib
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer

import pytest
import urllib3
from pydantic import ValidationError

from marginalia.data import download
from marginalia.data.catalogue.entry import File
from marginalia.data.download import CorruptFileError, UnreachableError, fetch
from marginalia.errors import InputError
from marginalia.waiting import longest

CONTENT = b"a,b\n0,1\n1,0\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
BLOB = hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT).hexdigest()


really_wait = time.sleep  # servers wait, while the code under test does not


@pytest.fixture
def places(tmp_path, monkeypatch):
    """An empty cache and mirror, named by the environment, and no waiting between tries."""
    cache, mirror = tmp_path / "cache", tmp_path / "mirror"
    mirror.mkdir()
    monkeypatch.setenv("MARGINALIA_CACHE", str(cache))
    monkeypatch.setenv("MARGINALIA_MIRROR", str(mirror))
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    return cache, mirror


@pytest.fixture
def connections(monkeypatch):
    """The hosts and time limits of all attempts to connect, in their order."""
    tried = []
    connect = urllib3.util.connection.create_connection

    def create_connection(address, timeout=None, **options):
        tried.append((address[0], timeout))
        return connect(address, timeout, **options)

    monkeypatch.setattr(urllib3.util.connection, "create_connection", create_connection)
    return tried


class Server:
    """Answers each request by the next of `replies`: bytes, a status code, or a cut-off body."""

    def __init__(self, replies):
        self.requests = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                server.requests.append(self.path)
                reply = replies[min(len(server.requests), len(replies)) - 1]
                if isinstance(reply, int):
                    self.send_error(reply)
                    return
                body, promised = reply if isinstance(reply, tuple) else (reply, len(reply))
                self.send_response(200)
                self.send_header("Content-Length", str(promised))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            do_HEAD = do_GET  # noqa: N815

            def log_message(self, *args):
                pass

        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/d/f.csv"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def serve():
    servers = []

    def start(*replies):
        servers.append(Server(replies))
        return servers[-1]

    yield start
    for server in servers:
        server.http.shutdown()
        server.http.server_close()


def put(folder, content=CONTENT, path="d/f.csv"):
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_bytes(content)
    return folder / path


def test_order_is_cache_then_mirror_then_url(places, serve):
    cache, mirror = places
    server = serve(CONTENT)
    file = File(path="d/f.csv", url=server.url, sha256=SHA256)
    in_mirror = put(mirror)
    assert fetch(file) == in_mirror
    in_cache = put(cache)
    assert fetch(file) == in_cache
    in_mirror.unlink()
    in_cache.unlink()
    assert server.requests == []
    assert fetch(file) == in_cache
    assert fetch(file).read_bytes() == CONTENT
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "pin", [{"sha256": SHA256}, {"git_blob_sha1": BLOB}, {"sha256": SHA256, "git_blob_sha1": BLOB}]
)
def test_either_hash_pins_a_file(places, pin):
    _, mirror = places
    copy = put(mirror)
    file = File(path="d/f.csv", **pin)
    assert fetch(file) == copy
    copy.write_bytes(CONTENT + b"1,1\n")
    with pytest.raises(CorruptFileError) as caught:
        fetch(file)
    message = str(caught.value)
    expected = SHA256 if "sha256" in pin else BLOB
    assert str(copy) in message
    assert f"expected {expected}" in message
    assert "copy the published file" in message
    assert "\n" not in message


def test_corrupt_cache_file_is_fetched_again(places, serve):
    cache, _ = places
    bad = put(cache, b"broken")
    server = serve(CONTENT)
    assert fetch(File(path="d/f.csv", url=server.url, sha256=SHA256)) == bad
    assert bad.read_bytes() == CONTENT


def test_corrupt_cache_file_is_named_when_nothing_can_replace_it(places):
    cache, _ = places
    put(cache, b"broken")
    with pytest.raises(UnreachableError, match="is corrupt"):
        fetch(File(path="d/f.csv", sha256=SHA256))


def test_corrupt_download_is_refused_and_leaves_nothing(places, serve):
    cache, _ = places
    server = serve(b"something else")
    with pytest.raises(CorruptFileError, match="does not serve the published file"):
        fetch(File(path="d/f.csv", url=server.url, sha256=SHA256))
    assert [p for p in cache.rglob("*") if p.is_file()] == []


def test_passing_failures_are_tried_again(places, serve):
    server = serve(503, (CONTENT[:4], len(CONTENT)), CONTENT)
    assert fetch(File(path="d/f.csv", url=server.url, sha256=SHA256)).read_bytes() == CONTENT
    assert len(server.requests) == 3


def test_a_busy_server_is_asked_three_times_for_the_file_and_once_whether_it_is_there(places, serve):
    server = serve(503)
    with pytest.raises(UnreachableError, match="HTTP 503"):
        fetch(File(path="d/f.csv", url=server.url))
    assert len(server.requests) == 3
    assert download.answers(server.url) == "HTTP 503 Service Unavailable"
    assert len(server.requests) == 4


def test_a_body_that_breaks_off_each_time_is_given_up(places, serve):
    cache, _ = places
    server = serve((CONTENT[:4], len(CONTENT)))
    with pytest.raises(UnreachableError, match="cannot get d/f"):
        fetch(File(path="d/f.csv", url=server.url))
    assert len(server.requests) == 3
    assert not [p for p in cache.rglob("*") if p.is_file()]


@contextlib.contextmanager
def serving(answer):
    """Serve by a function that gets the request's handler; yield the URL and the list of the requests."""
    requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            with contextlib.suppress(OSError):
                answer(self)

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}/f.csv", requests
        http.shutdown()


def test_a_server_that_hangs_up_is_asked_three_times(places):
    refused = pytest.raises(UnreachableError, match="Remote end closed connection without response")
    with serving(lambda handler: handler.connection.close()) as (url, requests), refused:
        fetch(File(path="d/f.csv", url=url))
    assert len(requests) == 3


def test_a_server_that_accepts_and_is_silent_is_asked_three_times(places, monkeypatch):
    monkeypatch.setattr(download, "READ_SECONDS", 0.1)
    refused = pytest.raises(UnreachableError, match="no answer in time")
    with serving(lambda handler: really_wait(0.5)) as (url, requests), refused:
        fetch(File(path="d/f.csv", url=url))
    assert len(requests) == 3


@pytest.mark.slow
def test_a_killed_process_leaves_no_half_file(places):
    cache, _ = places
    stalled = threading.Event()

    def half(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(CONTENT)))
        handler.end_headers()
        if len(requests) == 1:
            handler.wfile.write(CONTENT[:4])
            stalled.wait()
        else:
            handler.wfile.write(CONTENT)

    with serving(half) as (url, requests):
        file = File(path="d/f.csv", url=url, sha256=SHA256)
        code = (
            "import sys; from marginalia.data.catalogue.entry import File; from marginalia.data.download import fetch"
        )
        code += "; fetch(File.model_validate_json(sys.argv[1]))"
        with subprocess.Popen([sys.executable, "-c", code, file.model_dump_json()]) as process:
            while not any(path.is_file() for path in cache.rglob("*")):
                assert process.poll() is None
                really_wait(0.02)
            process.kill()
        stalled.set()
        assert not (cache / "d/f.csv").exists()
        assert fetch(file).read_bytes() == CONTENT


def test_a_missing_page_is_not_tried_again(places, serve):
    cache, mirror = places
    server = serve(404)
    with pytest.raises(UnreachableError) as caught:
        fetch(File(path="d/f.csv", url=server.url, sha256=SHA256))
    message = str(caught.value)
    for place in (str(cache), str(mirror), server.url, "404"):
        assert place in message
    assert len(server.requests) == 1


def test_unreachable_hosts_are_given_up_at_once(places, connections):
    """After one attempt, both when a file is fetched and when the host is asked for it."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        refused = f"http://127.0.0.1:{unused.getsockname()[1]}/f.csv"
        for url in (refused, "https://no-such-host.invalid/f.csv"):
            with pytest.raises(UnreachableError, match="cannot get d/f"):
                fetch(File(path="d/f.csv", url=url))
            assert download.answers(url) is not None
    assert [host for host, _ in connections] == ["127.0.0.1"] * 2 + ["no-such-host.invalid"] * 2


def test_a_silent_host_costs_one_short_wait(places, connections, monkeypatch):
    monkeypatch.setattr(download, "CONNECT_SECONDS", 0.3)
    with socket.socket() as full:  # a full backlog: connecting neither works nor fails
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        blockers = [socket.socket() for _ in range(8)]
        for blocker in blockers:
            blocker.setblocking(False)
            blocker.connect_ex(full.getsockname())
        with pytest.raises(UnreachableError, match="no answer in time"):
            fetch(File(path="d/f.csv", url=f"http://127.0.0.1:{full.getsockname()[1]}/f.csv"))
        for blocker in blockers:
            blocker.close()
    assert connections == [("127.0.0.1", 0.3)]


def test_an_answering_url_is_recognised_without_a_download(places, serve):
    server = serve(CONTENT)
    assert download.answers(server.url) is None


def test_without_mirror_the_message_says_how_to_name_one(places, monkeypatch):
    monkeypatch.delenv("MARGINALIA_MIRROR")
    with pytest.raises(UnreachableError, match="MARGINALIA_MIRROR is not set"):
        fetch(File(path="d/f.csv"))


def test_any_edition_will_do(places):
    _, mirror = places
    file = File(path="d/full.csv", sha256="0" * 64, alternatives=(File(path="d/f.csv", sha256=SHA256),))
    other = put(mirror, path="d/f.csv")
    assert fetch(file) == other
    first = put(mirror, path="d/full.csv")
    assert fetch(file) == first  # the other edition under the first one's name


def test_a_file_without_a_known_hash_is_fetched_alone(places, serve):
    cache, _ = places
    fetched = fetch(File(path="d/f.csv", url=serve(CONTENT).url))
    assert fetched.read_bytes() == CONTENT
    assert [path for path in cache.rglob("*") if path.is_file()] == [fetched]


def test_own_file_is_taken_where_it_lies(tmp_path, places):
    own = put(tmp_path, path="mine.csv")
    assert fetch(File(path=str(own))) == own
    with pytest.raises(CorruptFileError, match="correct the hash"):
        fetch(File(path=str(own), sha256="0" * 64))
    with pytest.raises(UnreachableError, match="there is no file"):
        fetch(File(path=str(tmp_path / "other.csv")))


def test_unwritable_cache_is_one_clear_line(places, serve, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(InputError, match="cannot write"):
        fetch(File(path="d/f.csv", url=serve(CONTENT).url, sha256=SHA256))


def test_an_answer_without_end_is_given_up_and_leaves_nothing(places, serve, monkeypatch):
    """What a server sends is bounded, whatever length it promises; 1 kB in place of 1 GiB."""
    cache, _ = places
    monkeypatch.setattr(download, "LARGEST_BYTES", 1000)
    server = serve(b"0" * 10**6)
    with pytest.raises(UnreachableError, match="sends more than 1,000 bytes, as no published file has"):
        fetch(File(path="d/f.csv", url=server.url, sha256=SHA256))
    assert not [p for p in cache.rglob("*") if p.is_file()]
    assert len(server.requests) == 1


def test_an_answer_that_unpacks_itself_is_bounded_too(places, monkeypatch):
    """A body that says it is packed, although it was asked not to be: 10 MB in 10 kB."""
    cache, _ = places
    monkeypatch.setattr(download, "LARGEST_BYTES", 2**20)
    body = gzip.compress(b"0" * 10**7)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
        with pytest.raises(UnreachableError, match="sends more than"):
            fetch(File(path="d/f.csv", url=f"http://127.0.0.1:{http.server_port}/f.csv"))
        http.shutdown()
    assert not [p for p in cache.rglob("*") if p.is_file()]


def test_a_cache_that_cannot_be_written_is_one_line(places, serve, monkeypatch):
    """As root too, to whom no mode forbids anything: under /proc nobody can make a folder."""
    monkeypatch.setenv("MARGINALIA_CACHE", "/proc/marginalia")
    with pytest.raises(InputError, match=r"cannot write /proc/marginalia/d/f\.csv") as caught:
        fetch(File(path="d/f.csv", url=serve(CONTENT).url, sha256=SHA256))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.slow
def test_a_body_that_trickles_is_given_up(places, monkeypatch, chunked):
    cache, _ = places
    monkeypatch.setenv("MARGINALIA_WAIT_SECONDS", "0.3")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.send_response(200)
            self.send_header(*(("Transfer-Encoding", "chunked") if chunked else ("Content-Length", "100000")))
            self.end_headers()
            with contextlib.suppress(OSError):
                for _ in range(200):
                    self.wfile.write(b"1\r\nx\r\n" if chunked else b"x")
                    really_wait(0.02)

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
        with pytest.raises(UnreachableError, match=r"no end within 0.3 seconds; MARGINALIA_WAIT_SECONDS allows more"):
            fetch(File(path="d/f.csv", url=f"http://127.0.0.1:{http.server_port}/f.csv"))
        http.shutdown()
    assert not [p for p in cache.rglob("*") if p.is_file()]


@pytest.mark.parametrize("path", ["../x.csv", "a/../../x.csv"])
def test_a_file_that_would_leave_its_folder_is_refused(path):
    with pytest.raises(ValidationError, match="leads out of the folders of data"):
        File(path=path, url="http://127.0.0.1:1/x.csv")


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf"])
def test_a_limit_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("MARGINALIA_WAIT_SECONDS", text)
    with pytest.raises(InputError, match=f"MARGINALIA_WAIT_SECONDS is '{text}'; give a number of seconds above 0"):
        longest()
