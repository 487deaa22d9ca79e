from __future__ import annotations

import asyncio
import dataclasses
import pathlib
import sys

import pytest

from tenantry.kube import config, credentials, errors


@dataclasses.dataclass
class Hand:
    """A clock that a test moves."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_static_credential_is_always_the_same() -> None:
    source = credentials.Source(config.Config(server="https://x", token="abc"))
    first = await source.get()
    assert first.authorization == "Bearer abc"
    assert await source.get() is first
    assert not source.renewable
    assert "abc" not in repr(first)


async def test_anonymous_and_basic() -> None:
    anonymous = credentials.Source(config.Config(server="https://x"))
    assert (await anonymous.get()).authorization == ""
    basic = credentials.Source(config.Config(server="https://x", username="u", password="p"))
    assert (await basic.get()).authorization == "Basic dTpw"


async def test_token_file_is_read_again_after_a_minute(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    hand = Hand()
    # The file is the fresher of the two.
    source = credentials.Source(
        config.Config(server="https://x", token_file=str(path), token="old"), monotonic=hand
    )
    first = await source.get()
    assert first.authorization == "Bearer one"
    path.write_text("two")
    hand.now += credentials.REREAD - 1
    assert await source.get() is first
    hand.now += 1
    assert (await source.get()).authorization == "Bearer two"


async def test_unchanged_files_keep_the_credential(tmp_path: pathlib.Path) -> None:
    for name in ("ca", "crt", "key"):
        (tmp_path / name).write_text(name)
    hand = Hand()
    source = credentials.Source(
        config.Config(
            server="https://x",
            ca_file=str(tmp_path / "ca"),
            cert_file=str(tmp_path / "crt"),
            key_file=str(tmp_path / "key"),
        ),
        monotonic=hand,
    )
    first = await source.get()
    assert (first.ca, first.cert, first.key) == (b"ca", b"crt", b"key")
    hand.now += 2 * credentials.REREAD
    assert await source.get() is first
    (tmp_path / "ca").write_text("new")
    hand.now += credentials.REREAD
    assert (await source.get()).ca == b"new"


async def test_refused_credential_is_read_again_at_once(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    source = credentials.Source(config.Config(server="https://x", token_file=str(path)))
    first = await source.get()
    path.write_text("two")
    source.invalidate(first)
    second = await source.get()
    assert second.authorization == "Bearer two"
    # Late news about the first one do not throw away the second.
    source.invalidate(first)
    assert await source.get() is second


@pytest.mark.parametrize("token", ["a\nb", "a\r", "ä"])
async def test_token_that_would_break_the_header(token: str) -> None:
    source = credentials.Source(config.Config(server="https://x", token=token))
    with pytest.raises(errors.ConfigError, match="printable ASCII"):
        await source.get()


async def test_missing_file_is_named(tmp_path: pathlib.Path) -> None:
    source = credentials.Source(config.Config(server="https://x", ca_file=str(tmp_path / "ca")))
    with pytest.raises(errors.ConfigError, match="ca: cannot be read: No such file"):
        await source.get()


def counting_plugin(tmp_path: pathlib.Path, expires: str) -> config.Config:
    """A plugin that gives token-1, token-2, ... and the same expiry."""
    path = tmp_path / "plugin.py"
    count = tmp_path / "count"
    path.write_text(
        "import json, os, pathlib\n"
        f"count = pathlib.Path({str(count)!r})\n"
        "with count.open('a') as file: file.write('x')\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        f"info['status'] = {{'token': f'token-{{count.stat().st_size}}', 'expirationTimestamp': {expires!r}}}\n"
        "print(json.dumps(info))\n"
    )
    return config.Config(
        server="https://x",
        exec=config.ExecPlugin(
            api_version="client.authentication.k8s.io/v1",
            command=sys.executable,
            args=(str(path),),
        ),
    )


async def test_plugin_runs_once_for_all_who_wait_and_again_before_expiry(
    tmp_path: pathlib.Path,
) -> None:
    hand = Hand(1767225600.0 - 3600)
    source = credentials.Source(
        counting_plugin(tmp_path, "2026-01-01T00:00:00Z"), monotonic=Hand(), wall=hand
    )
    assert source.renewable
    got = await asyncio.gather(*(source.get() for _ in range(5)))
    assert {one.authorization for one in got} == {"Bearer token-1"}
    hand.now += 3600 - credentials.EARLY - 1
    assert (await source.get()).authorization == "Bearer token-1"
    hand.now += 1
    assert (await source.get()).authorization == "Bearer token-2"


async def test_plugin_runs_again_when_refused(tmp_path: pathlib.Path) -> None:
    source = credentials.Source(counting_plugin(tmp_path, "2999-01-01T00:00:00Z"))
    first = await source.get()
    assert await source.get() is first
    source.invalidate(first)
    assert (await source.get()).authorization == "Bearer token-2"


async def test_a_file_missing_for_an_instant_changes_nothing(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    hand = Hand()
    source = credentials.Source(
        config.Config(server="https://x", token_file=str(path)), monotonic=hand
    )
    first = await source.get()
    path.unlink()
    hand.now += credentials.REREAD
    assert await source.get() is first
    assert "credential_not_renewed" in caplog.text
    path.write_text("two")
    assert await source.get() is first, "not read for every request"
    hand.now += credentials.RETRY
    assert (await source.get()).authorization == "Bearer two"


async def test_without_a_file_a_refused_token_is_not_used_again(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    hand = Hand()
    source = credentials.Source(
        config.Config(server="https://x", token_file=str(path)), monotonic=hand
    )
    source.invalidate(await source.get())
    path.unlink()
    for _ in range(2):
        with pytest.raises(errors.Unreachable, match=r"no credential for now: .*token: cannot be"):
            await source.get()
    path.write_text("two")
    hand.now += credentials.RETRY
    assert (await source.get()).authorization == "Bearer two"


async def test_a_plugin_that_fails_once_changes_nothing(tmp_path: pathlib.Path) -> None:
    wall, hand = Hand(1767225600.0 - credentials.EARLY - 1), Hand()
    source = credentials.Source(
        counting_plugin(tmp_path, "2026-01-01T00:00:00Z"), monotonic=hand, wall=wall
    )
    first = await source.get()
    script = tmp_path / "plugin.py"
    working = script.read_text()
    script.write_text("import sys\nsys.exit('the network is down')\n")
    wall.now += 1
    assert await source.get() is first
    script.write_text(working)
    hand.now += credentials.RETRY
    assert (await source.get()).authorization == "Bearer token-2"


async def test_a_credential_that_cannot_be_used_is_not_taken(tmp_path: pathlib.Path) -> None:
    """Certificate and key change one after the other."""
    path = tmp_path / "key"
    path.write_text("good")
    (tmp_path / "crt").write_text("certificate")
    hand = Hand()

    def check(credential: credentials.Credential) -> None:
        if credential.key == b"foreign":
            raise errors.ConfigError("they do not fit")

    settings = config.Config(
        server="https://x", cert_file=str(tmp_path / "crt"), key_file=str(path)
    )
    source = credentials.Source(settings, check=check, monotonic=hand)
    first = await source.get()
    path.write_text("foreign")
    hand.now += credentials.REREAD
    assert await source.get() is first
    path.write_text("new")
    hand.now += credentials.RETRY
    assert (await source.get()).key == b"new"
    with pytest.raises(errors.ConfigError, match="do not fit"):
        path.write_text("foreign")
        await credentials.Source(settings, check=check, monotonic=hand).get()
