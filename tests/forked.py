"""Commands in processes of their own that start in milliseconds.

One server imports what the commands need, once, and forks for each of them: a process like any
other, with a folder, an environment and streams of its own. With several workers of pytest the
server belongs to their controller (`conftest.py`), else to the first test that needs it. A test
that is about starting itself (imports, entry points, hash seeds) uses `subprocess`.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

ROOT = Path(__file__).parents[1]
# Where lines that were executed are noted, if they are (tests/line_coverage.py).
_SEEN_LINES = os.environ.get("ASSAY_LINE_COVERAGE")
SOCKET_VARIABLE = "ASSAY_FORK_SERVER"
_SHARED_SERVER = os.environ.get(SOCKET_VARIABLE)  # read now: tests take variables away
ASSAY = "assay.cli.app:main"
PYTEST = "pytest:console_main"

# What the verbs import while they run. Libraries that few of them need are left to those.
_PACKAGES = ("cli", "evaluation", "report", "targets", "contract", "serve", "nextcloud")
_MODULES = ("pytest", "assay.search.array_store", "assay.search.onnx_embedding")
_NUMBER = 16
"""Bytes of a number on the socket, in ASCII."""


class ForkedProcess:
    """A running command, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, channel: socket.socket, stdin: IO[str], stdout: IO[str]) -> None:
        self._channel = channel
        self.pid = _receive_number(channel)
        self.stdin, self.stdout = stdin, stdout
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, or the negative number of the signal that ended it."""
        if self.returncode is None:
            self._channel.settimeout(timeout)
            self.returncode = _receive_number(self._channel)
        return self.returncode

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._channel], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        self.wait()
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        self.stdout.close()
        self._channel.close()


@contextlib.contextmanager
def started(
    program: str,
    *arguments: str,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    stderr: IO[Any] | None = None,
) -> Iterator[ForkedProcess]:
    """A command whose streams are pipes; it is killed at the end.

    `program` is `ASSAY`, `PYTEST` or another "module:function" without parameters; without `stderr`
    it has that of pytest.
    """
    theirs_in, ours_in = os.pipe()
    ours_out, theirs_out = os.pipe()
    streams = [theirs_in, theirs_out, 2 if stderr is None else stderr.fileno()]
    channel = _start(program, arguments, cwd, env, streams)
    os.close(theirs_in)
    os.close(theirs_out)
    process = ForkedProcess(channel, open(ours_in, "w"), open(ours_out))  # noqa: SIM115, PTH123
    try:
        yield process
    finally:
        process.close()


def run(
    program: str,
    *arguments: str,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 110,
) -> "subprocess.CompletedProcess[str]":
    """A command from start to end, with what it printed."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with open(os.devnull) as nothing:  # noqa: PTH123
            streams = [nothing.fileno(), out.fileno(), err.fileno()]
            channel = _start(program, arguments, cwd, env, streams)
        process = ForkedProcess(channel, io.StringIO(), io.StringIO())
        try:
            code = process.wait(timeout)
        finally:
            process.close()
        printed = [_content(out), _content(err)]
    return subprocess.CompletedProcess([program, *arguments], code, *printed)


def write_program(path: Path, program: str = ASSAY) -> None:
    """An executable file that is the command, for shell scripts."""
    settings = {"server": _server(), "program": program, "number": _NUMBER}
    path.write_text(_CLIENT.format(python=sys.executable, **settings))
    path.chmod(0o755)


_CLIENT = """#!{python} -IS
import json, os, socket, sys

channel = socket.socket(socket.AF_UNIX)
channel.connect({server!r})
request = json.dumps([{program!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(channel, [b"%*d" % ({number}, len(request))], [0, 1, 2])
channel.sendall(request)
pid, code = [int(channel.recv({number}, socket.MSG_WAITALL)) for _ in range(2)]
sys.exit(code if code >= 0 else 128 - code)
"""


def _content(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()


def _start(
    program: str,
    arguments: Sequence[str],
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
    streams: list[int],
) -> socket.socket:
    folder = str(Path.cwd() if cwd is None else cwd)
    variables = dict(os.environ if env is None else env)
    request = json.dumps([program, arguments, folder, variables]).encode()
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(_server())
    socket.send_fds(channel, [b"%*d" % (_NUMBER, len(request))], streams)
    channel.sendall(request)
    return channel


def _receive_number(channel: socket.socket) -> int:
    text = channel.recv(_NUMBER, socket.MSG_WAITALL)
    if not text:
        raise RuntimeError("the fork server has ended")
    return int(text)


def _server() -> str:
    return _SHARED_SERVER or _own_server()


@functools.cache
def _own_server() -> str:
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(serving())


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """A fork server, by the path of its socket. It ends with this block, or this process."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = f"{folder}/socket"
        listener.bind(path)
        listener.listen(64)
        command = [sys.executable, "-m", "tests.forked", str(listener.fileno())]
        search = os.pathsep.join([str(ROOT), *sys.path])
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": search},
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
        ):
            yield path


def _serve(listener: socket.socket) -> None:
    """Fork for each connection, and tell it the process's number and how it ended."""
    channels: dict[int, tuple[int, socket.socket]] = {}
    while True:
        ready: list[int] = select.select([0, listener.fileno(), *channels], [], [])[0]
        if 0 in ready:  # whoever started it has gone
            for pid, _ in channels.values():
                os.kill(pid, signal.SIGKILL)
            return
        for each in ready:
            if each == listener.fileno():
                channel, _ = listener.accept()
                pid = _fork(channel, [listener, *(other for _, other in channels.values())])
                channel.sendall(b"%*d" % (_NUMBER, pid))
                channels[os.pidfd_open(pid)] = (pid, channel)
            else:
                pid, channel = channels.pop(each)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with channel, contextlib.suppress(OSError):  # the test may have gone
                    channel.sendall(b"%*d" % (_NUMBER, code))
                os.close(each)


def _fork(channel: socket.socket, others: list[socket.socket]) -> int:
    length, streams, _, _ = socket.recv_fds(channel, _NUMBER, 3)
    request = channel.recv(int(length), socket.MSG_WAITALL)
    pid = os.fork()
    if pid == 0:
        for inherited in (channel, *others):
            inherited.close()
        _become(json.loads(request), streams)
    for each in streams:
        os.close(each)
    return pid


def _become(request: tuple[str, list[str], str, dict[str, str]], streams: list[int]) -> NoReturn:
    """Be the command, in the state in which the interpreter starts it."""
    program, arguments, cwd, env = request
    for number, each in enumerate(streams):
        os.dup2(each, number)
        os.close(each)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, errors="backslashreplace", buffering=1)  # noqa: SIM115
    # As in a terminal, also where the tests were started with nohup or in the background.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    module, _, function = program.partition(":")
    sys.argv = [module.partition(".")[0], *arguments]
    sys.path[0] = str(Path(sys.executable).parent)
    code: Any = 0
    try:
        code = getattr(importlib.import_module(module), function)()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits, as the interpreter does at its end
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    if _SEEN_LINES:
        importlib.import_module("tests.line_coverage").write_seen(_SEEN_LINES)
    os._exit(code or 0)


def leave_the_disk_alone() -> None:
    """Let `os.fsync` check its file and return: to wait for the disk helps against a loss of power,
    which no test can cause.
    """
    os.fsync = os.fstat  # type: ignore[assignment]


def _compile_templates() -> None:
    pages = importlib.import_module("assay.report.html")
    for folders in ((), (importlib.import_module("assay.serve.ui.context").TEMPLATES,)):
        for name in pages.environment(*folders).list_templates(["html"]):
            pages.environment(*folders).get_template(name)


def _main() -> None:
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        if _SEEN_LINES:  # before what is measured is imported
            importlib.import_module("tests.line_coverage")
        for package in _PACKAGES:
            folder = importlib.import_module(f"assay.{package}").__path__
            for each in pkgutil.walk_packages(folder, f"assay.{package}."):
                importlib.import_module(each.name)
        for name in _MODULES:
            importlib.import_module(name)
        leave_the_disk_alone()
        list(importlib.import_module("assay.cli.app").app.all_verbs())
        _compile_templates()
        gc.collect()
        gc.freeze()
        _serve(listener)


if __name__ == "__main__":
    _main()
