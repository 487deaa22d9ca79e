from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from http import server
from pathlib import Path

import pytest
from tests.local import programs

from tenantry.local import artefacts, download, errors, plan, progress

KUBECTL = artefacts.ALL[plan.KUBECTL]
ETCD = artefacts.ALL[plan.ETCD]
PROGRAM = programs.elf(b"kubectl" * 1000)
ARCH = artefacts.architecture()
URL = f"/kubernetes/{KUBECTL.file.format(arch=ARCH)}"
Reply = Callable[[server.BaseHTTPRequestHandler], None]


class Mirror:
    """A local HTTP server whose answers a test decides."""

    def __init__(self) -> None:
        self.replies: dict[str, Reply] = {}
        self.asked: list[str] = []
        mirror = self

        class Handler(server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                mirror.asked.append(self.path)
                reply = mirror.replies.get(self.path)
                if reply:
                    reply(self)
                else:
                    self.send_error(404)

            def log_message(self, *_: object) -> None:
                pass

        self.server = server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def serve(self, path: str, body: bytes, *, promised: int | None = None) -> None:
        def reply(request: server.BaseHTTPRequestHandler) -> None:
            request.send_response(200)
            request.send_header("Content-Length", str(len(body) if promised is None else promised))
            request.end_headers()
            request.wfile.write(body)

        self.replies[path] = reply

    def publish(self, body: bytes = PROGRAM, *, sums: str | None = None) -> None:
        self.serve(URL, body)
        self.serve(f"{URL}.sha256", (sums or hashlib.sha256(body).hexdigest()).encode())


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    made = Mirror()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target"


def fetch(
    mirror: Mirror,
    target: Path,
    artefact: artefacts.Artefact = KUBECTL,
    *,
    silence: float = 20,
    patience: float = 20,
) -> str:
    downloads = download.Downloads(
        environ={download.URL: mirror.url}, silence=silence, patience=patience
    )
    return downloads.fetch(artefact, target, progress.Step("test"))


@pytest.mark.parametrize(
    "form", ["{sum}", "{sum}\n", "{SUM}", "{sum}  kubectl\n", "{sum} *kubectl"]
)
def test_a_good_file(mirror: Mirror, target: Path, form: str) -> None:
    digest = hashlib.sha256(PROGRAM).hexdigest()
    mirror.publish(sums=form.format(sum=digest, SUM=digest.upper()))
    assert fetch(mirror, target) == f"downloaded from {mirror.url}{URL}"
    assert target.read_bytes() == PROGRAM


def test_progress_tells_how_far_it_is(mirror: Mirror, target: Path) -> None:
    mirror.publish(b"x" * 3_000_000)
    step = progress.Step("test")
    download.Downloads(environ={download.URL: mirror.url}).fetch(KUBECTL, target, step)
    assert step.detail.startswith("downloading from 127.0.0.1:")
    assert step.count == "3 of 3 MB"


def test_an_archive_and_a_list_of_checksums(mirror: Mirror, target: Path) -> None:
    archive = packed(ETCD.member.format(arch=ARCH), PROGRAM)
    file = ETCD.file.format(arch=ARCH)
    mirror.serve(f"/etcd/{file}", archive)
    digest = hashlib.sha256(archive).hexdigest()
    other = f"{'0' * 64}  other.tar.gz\n"
    mirror.serve(f"/etcd/{ETCD.checksums}", f"{other}{digest}  {Path(file).name}\n".encode())
    fetch(mirror, target, ETCD)
    assert target.read_bytes() == PROGRAM
    assert list(target.parent.iterdir()) == [target]


def packed(member: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        info = tarfile.TarInfo(member)
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


@pytest.mark.parametrize(
    ("archive", "problem"),
    [
        pytest.param(packed("other", b"x"), "holds no etcd-", id="without the program"),
        pytest.param(b"no archive at all", "is not an archive", id="no archive"),
        pytest.param(packed("x", b"y" * 5000)[:40], "is not an archive", id="cut archive"),
    ],
)
def test_a_bad_archive(mirror: Mirror, target: Path, archive: bytes, problem: str) -> None:
    file = ETCD.file.format(arch=ARCH)
    mirror.serve(f"/etcd/{file}", archive)
    digest = hashlib.sha256(archive).hexdigest()
    mirror.serve(f"/etcd/{ETCD.checksums}", f"{digest}  {Path(file).name}".encode())
    with pytest.raises(download.Refused, match=problem):
        fetch(mirror, target, ETCD)


def test_a_wrong_checksum(mirror: Mirror, target: Path) -> None:
    mirror.publish(sums="0" * 64)
    with pytest.raises(download.Refused, match=f"has the checksum .* says {'0' * 64}"):
        fetch(mirror, target)


def test_a_corrupt_file(mirror: Mirror, target: Path) -> None:
    mirror.publish()
    mirror.serve(URL, PROGRAM[:-1] + b"!")
    with pytest.raises(download.Refused, match="has the checksum"):
        fetch(mirror, target)


def test_a_truncated_file(mirror: Mirror, target: Path) -> None:
    mirror.publish()
    mirror.serve(URL, PROGRAM[:1000], promised=len(PROGRAM))
    with pytest.raises(download.Refused, match=r"kubectl: .*(closed|payload|not completed)"):
        fetch(mirror, target)


@pytest.mark.parametrize("sums", ["", "<html>", "abc  kubectl", f"{'0' * 64}  other"])
def test_a_checksum_file_without_a_checksum(mirror: Mirror, target: Path, sums: str) -> None:
    mirror.publish()
    mirror.serve(f"{URL}.sha256", sums.encode())
    with pytest.raises(download.Refused, match="has no SHA-256 of kubectl"):
        fetch(mirror, target)


def test_not_there(mirror: Mirror, target: Path) -> None:
    mirror.publish()
    del mirror.replies[URL]
    with pytest.raises(download.Refused, match="answered 404"):
        fetch(mirror, target)


def test_without_a_published_checksum_nothing_is_fetched(mirror: Mirror, target: Path) -> None:
    mirror.publish()
    del mirror.replies[f"{URL}.sha256"]
    with pytest.raises(download.Refused, match="no checksum is published"):
        fetch(mirror, target)
    assert URL not in mirror.asked


def test_a_server_in_trouble(mirror: Mirror, target: Path) -> None:
    mirror.publish()
    mirror.replies[f"{URL}.sha256"] = lambda request: request.send_error(503)
    with pytest.raises(download.Refused, match="answered 503"):
        fetch(mirror, target)


def test_a_server_that_falls_silent(mirror: Mirror, target: Path) -> None:
    mirror.publish()
    ended = threading.Event()

    def reply(request: server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(PROGRAM)))
        request.end_headers()
        request.wfile.write(PROGRAM[:100])
        request.wfile.flush()
        ended.wait(10)

    mirror.replies[URL] = reply
    with pytest.raises(download.Refused, match=r"[Tt]imeout"):
        fetch(mirror, target, silence=0.2)
    ended.set()


def test_a_slow_server(mirror: Mirror, target: Path) -> None:
    mirror.publish()

    def reply(request: server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        try:
            for _ in range(1000):
                request.wfile.write(b"x")
                request.wfile.flush()
                time.sleep(0.02)
        except OSError:
            pass

    mirror.replies[URL] = reply
    with pytest.raises(download.Refused, match="is too slow: 0 kB/s"):
        fetch(mirror, target, patience=0.2)


def test_nobody_listens_and_is_not_asked_twice(target: Path) -> None:
    downloads = download.Downloads(environ={download.URL: "http://127.0.0.1:9"})
    for artefact in (KUBECTL, ETCD):
        with pytest.raises(download.Refused, match=r"cannot reach 127\.0\.0\.1:9"):
            downloads.fetch(artefact, target, progress.Step("test"))
    assert list(downloads._unreachable) == ["127.0.0.1:9"]


def test_switched_off(target: Path) -> None:
    downloads = download.Downloads(environ={download.URL: "off"})
    with pytest.raises(download.Refused, match="off"):
        downloads.fetch(KUBECTL, target, progress.Step("test"))


def test_a_full_disk_is_not_the_servers_fault(mirror: Mirror) -> None:
    mirror.publish()
    with pytest.raises(errors.StorageError, match="No space left on device"):
        fetch(mirror, Path("/dev/full"))
