from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from tenantry.core import errors as core_errors
from tenantry.local import errors, ports


def all_but(*taken: int) -> Callable[[int], bool]:
    return lambda port: port not in taken


@contextlib.contextmanager
def nobodys() -> Iterator[tuple[int, Callable[[], None]]]:
    """Let a port be taken without a process that has it; gives what ends that, too.

    As while a killed server is taken apart: here its listener is on the way between two sockets.
    """
    left, right = socket.socketpair()
    with left, right:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            socket.send_fds(left, [b"."], [listener.fileno()])
            port = listener.getsockname()[1]

        def end() -> None:
            left.close()
            right.close()

        yield port, end


class TestLetGo:
    def test_a_port_is_waited_for_while_whoever_has_it_is_being_killed(self) -> None:
        with nobodys() as (port, end):
            ports.let_go(port, 0)
            assert not ports.is_free(port)
            later = threading.Timer(0.05, end)
            later.start()
            ports.let_go(port, 30)
            assert ports.is_free(port)
            later.join()

    def test_who_runs_is_not_waited_for(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            ports.let_go(listener.getsockname()[1], 1e9)


class TestChoose:
    def test_remembered_ports_are_kept(self) -> None:
        chosen = ports.choose(["a", "b"], {"a": 20001}, seed="x", avoid=(), free=all_but())
        assert chosen["a"] == 20001
        assert chosen["b"] in ports.RANGE

    def test_a_taken_one_is_replaced(self) -> None:
        chosen = ports.choose(["a"], {"a": 20001}, seed="x", avoid=(), free=all_but(20001))
        assert chosen["a"] != 20001

    def test_no_port_is_given_twice(self) -> None:
        keys = [str(i) for i in range(200)]
        chosen = ports.choose(keys, {"7": 20001}, seed="x", avoid={20002}, free=all_but())
        assert len(set(chosen.values())) == 200
        assert 20002 not in chosen.values()

    def test_two_keys_that_remember_the_same_port_part(self) -> None:
        chosen = ports.choose(
            ["a", "b"], {"a": 20001, "b": 20001}, seed="x", avoid=(), free=all_but()
        )
        assert chosen["a"] == 20001 != chosen["b"]

    def test_none_left(self) -> None:
        with pytest.raises(errors.LocalError, match="no port from 20000 to 29999 is free"):
            ports.choose(["a"], {}, seed="x", avoid=(), free=lambda _: False)


class TestChooseApi:
    @staticmethod
    def choose(
        count: int,
        remembered: tuple[int, ...],
        wanted: int | None = None,
        taken: tuple[int, ...] = (),
    ) -> tuple[int, ...]:
        return ports.choose_api(
            count, remembered, name="one", seed="x", wanted=wanted, avoid=(), free=all_but(*taken)
        )

    def test_the_first_stays(self) -> None:
        assert self.choose(1, (20001,)) == (20001,)

    def test_more_and_fewer(self) -> None:
        three = self.choose(3, (20001,))
        assert three[0] == 20001
        assert len(set(three)) == 3
        assert self.choose(2, three) == three[:2]

    def test_a_taken_first_one_is_an_error_that_says_what_to_do(self) -> None:
        with pytest.raises(errors.PortTakenError, match=r"port 20001.*--api-port") as caught:
            self.choose(1, (20001,), taken=(20001,))
        assert caught.value.port == 20001

    def test_the_others_may_change(self) -> None:
        chosen = self.choose(2, (20001, 20002), taken=(20002,))
        assert chosen[0] == 20001
        assert chosen[1] != 20002

    def test_as_wanted(self) -> None:
        assert self.choose(1, (20001,), wanted=6443) == (6443,)

    def test_wanted_and_taken(self) -> None:
        with pytest.raises(errors.PortTakenError):
            self.choose(1, (), wanted=6443, taken=(6443,))

    def test_zero_means_another(self) -> None:
        assert self.choose(1, (20001,), wanted=0, taken=(20001,)) != (20001,)
        assert self.choose(1, (20001,), wanted=0) != (20001,)

    @pytest.mark.parametrize("wanted", [-1, 65536])
    def test_no_port_at_all(self, wanted: int) -> None:
        with pytest.raises(core_errors.InvalidValueError):
            self.choose(1, (), wanted=wanted)


def test_a_listener_is_seen_and_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not ports.is_free(port)
        with pytest.raises(errors.PortTakenError, match=r"taken by process \d+ \("):
            ports.choose_api(1, [port], name="one", seed="x", wanted=None, avoid=())
    assert ports.is_free(port)


def test_all_candidates_once_and_by_seed() -> None:
    order = list(ports.candidates("a", {20005}))
    assert sorted([*order, 20005]) == list(ports.RANGE)
    assert order == list(ports.candidates("a", {20005}))
    assert order != list(ports.candidates("b", {20005}))
