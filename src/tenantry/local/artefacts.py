"""What has to be on disk before a platform can run, and under which names the world offers it."""

from __future__ import annotations

import platform
import struct
from dataclasses import dataclass
from pathlib import Path

from tenantry.local import errors, plan

KUBERNETES = "v1.35.4"
ETCD = "v3.6.16"
KWOK = "v0.8.0"
MODULES = Path(__file__).parent / "modules"

_VERSION_PACKAGE = "k8s.io/component-base/version"
_MAJOR, _MINOR, _ = KUBERNETES.removeprefix("v").split(".")
_STRIPPED = "-s -w"
_KUBERNETES_FLAGS = (
    f"{_STRIPPED} -X {_VERSION_PACKAGE}.gitVersion={KUBERNETES}"
    f" -X {_VERSION_PACKAGE}.gitMajor={_MAJOR} -X {_VERSION_PACKAGE}.gitMinor={_MINOR}"
)


@dataclass(frozen=True, kw_only=True)
class Artefact:
    name: str
    component: str
    version: str
    #: Where its release is published, and the file in it; `{arch}` is Go's name of the machine.
    releases: str
    file: str
    #: The published file of checksums; "" = `file` with ".sha256" behind it.
    checksums: str = ""
    #: Path inside `file` when that is an archive.
    member: str = ""
    #: What `go build` is told to build in `MODULES/component`; "" = nothing to build.
    package: str = ""
    flags: str = _STRIPPED

    @property
    def folder(self) -> str:
        """Return the name of its place in the cache."""
        return f"{self.component}-{self.version}-linux-{architecture()}"


def architecture() -> str:
    """Return Go's name for this machine."""
    known = {"x86_64": "amd64", "aarch64": "arm64"}
    machine = platform.machine()
    if platform.system() != "Linux" or machine not in known:
        raise errors.LocalError(
            f"a local platform needs Linux on {' or '.join(known)};"
            f" this is {platform.system()} on {machine}"
        )
    return known[machine]


def _kubernetes(name: str) -> Artefact:
    return Artefact(
        name=name,
        component="kubernetes",
        version=KUBERNETES,
        releases="https://dl.k8s.io/release",
        file=f"{KUBERNETES}/bin/linux/{{arch}}/{name}",
        package=f"k8s.io/kubernetes/cmd/{name}",
        flags=_KUBERNETES_FLAGS,
    )


_KWOK_RELEASES = "https://github.com/kubernetes-sigs/kwok/releases/download"
ALL = {
    found.name: found
    for found in (
        Artefact(
            name=plan.ETCD,
            component="etcd",
            version=ETCD,
            releases="https://github.com/etcd-io/etcd/releases/download",
            file=f"{ETCD}/etcd-{ETCD}-linux-{{arch}}.tar.gz",
            checksums=f"{ETCD}/SHA256SUMS",
            member=f"etcd-{ETCD}-linux-{{arch}}/etcd",
            package=".",
        ),
        _kubernetes(plan.API_SERVER),
        _kubernetes(plan.CONTROLLER_MANAGER),
        _kubernetes(plan.SCHEDULER),
        _kubernetes(plan.KUBECTL),
        Artefact(
            name=plan.KWOK,
            component="kwok",
            version=KWOK,
            releases=_KWOK_RELEASES,
            file=f"{KWOK}/kwok-linux-{{arch}}",
            package="sigs.k8s.io/kwok/cmd/kwok",
        ),
        Artefact(
            name=plan.STAGES,
            component="kwok",
            version=KWOK,
            releases=_KWOK_RELEASES,
            file=f"{KWOK}/stage-fast.yaml",
        ),
    )
}


def flaw(artefact: Artefact, path: Path) -> str:
    """Say in what way a file surely is not what it should be; "" when it may be it."""
    if artefact.name == plan.STAGES:
        return "" if b"kind: Stage" in path.read_bytes() else "holds no stages"
    return program_flaw(path)


def program_flaw(path: Path) -> str:
    """Look whether a file is a whole ELF program for this machine, without running it."""
    size = path.stat().st_size
    with path.open("rb") as file:
        header = file.read(64)
    if len(header) < 64 or header[:4] != b"\x7fELF":
        return "is not a program for Linux"
    if header[4:6] != b"\x02\x01":
        return "is not a program for a 64 bit little-endian machine"
    (machine,) = struct.unpack_from("<H", header, 18)
    if machine != {"amd64": 62, "arm64": 183}[architecture()]:
        return "is a program for another kind of machine"
    # The section table is the last thing in the file that linkers write.
    (offset,) = struct.unpack_from("<Q", header, 40)
    entry_size, entries = struct.unpack_from("<HH", header, 58)
    end = offset + entry_size * entries
    return f"is cut off: {size} of {end} bytes" if size < end else ""
