"""Play a program of a terminal and say what is on its screen; run by a Python that has pyte.

    python screens.py KEYS COMMAND...

KEYS is JSON: pairs of what is typed and a text that must then be on the screen. Each time that it
is, the whole screen is written, as one line of JSON.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

pyte = importlib.import_module("pyte")

LINES, COLUMNS = 50, 180
#: For how long nothing changes on a screen that is done; and how long that may take at most.
STILL, MOST = 1.5, 45.0


def main() -> int:
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.argv[2], sys.argv[2:])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)

    def until(text: str) -> bool:
        began = changed = time.monotonic()
        shown: list[str] = []
        while time.monotonic() - began < MOST:
            if select.select([terminal], [], [], 0.2)[0]:
                stream.feed(os.read(terminal, 65536))
            now = time.monotonic()
            if shown != screen.display:
                shown, changed = list(screen.display), now
            if any(text in line for line in shown) and now - changed > STILL:
                return True
        return False

    try:
        for typed, text in json.loads(sys.argv[1]):
            os.write(terminal, typed.encode())
            found = until(text)
            print(json.dumps([line.rstrip() for line in screen.display]), flush=True)
            if not found:
                print(f"{text!r} is not on the screen", file=sys.stderr)
                return 1
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
