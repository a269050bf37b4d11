"""Runs the program on a Python function. The program's workers ask for processes that call the
function: each is a fork of this one, so that functions need no module of their own."""

import os
import select
import shutil
import signal
import socket
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from .serve import serve


class Failed(AssertionError):
    """Something was falsified, or nothing was judged; `output` is what the program printed."""

    def __init__(self, code, output):
        super().__init__(output.strip())
        self.code, self.output = code, output


def _program():
    named = os.environ.get("SHARDPROOF_PROGRAM") or shutil.which("shardproof")
    if named is None:
        raise FileNotFoundError("the program shardproof is not on the PATH; SHARDPROOF_PROGRAM may "
                                "say where it is")
    return Path(named).resolve()


def _bridge(program):
    name = "libshardproof_python.so"
    libraries = program.parent.parent / "lib"
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    for folder in (program.parent, libraries / "shardproof", libraries / multiarch / "shardproof"):
        if (folder / name).exists():
            return folder / name
    raise FileNotFoundError(f"{name} is neither beside {program} nor in {libraries}/shardproof")


def _fork(subject, listener):
    connection, _ = listener.accept()
    child = os.fork()
    if child == 0:
        try:
            listener.close()
            serve(subject, connection)
        finally:
            os._exit(0)
    connection.close()
    return child


def _attend(subject, printed, listener, children, echo):
    """Gives the program what it asks for until it closes its output, which is returned."""
    output = ""
    while True:
        ready, _, _ = select.select([listener, printed], [], [])
        if listener in ready:
            children.append(_fork(subject, listener))
            continue
        chunk = os.read(printed.fileno(), 65536).decode(errors="replace")
        if not chunk:
            return output
        output += chunk
        if echo:
            print(chunk, end="", flush=True)


def _run(subject, words, echo):
    program = _program()
    children = []
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.join(folder, "socket"))
        listener.listen(64)
        environment = dict(os.environ, SHARDPROOF_PYTHON=os.path.join(folder, "socket"))
        command = [program, *words, f"--plugin={_bridge(program)}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=environment) as running:
            try:
                output = _attend(subject, running.stdout, listener, children, echo)
            except BaseException:
                running.terminate()
                raise
            finally:
                running.wait()
                for child in children:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
    return running.returncode, output


def _expect_success(subject, words, echo):
    code, output = _run(subject, words, echo)
    if code != 0:
        raise Failed(code, output)
    return output


def fuzz(subject, *, time=None, cases=None, seed=0, echo=True, **flags):
    """Judges random cases of a decorated function; raises Failed unless all hold. Further flags as
    of `shardproof fuzz`: mask="causal", mesh="cp=2..4", jobs=2, world=..."""
    words = ["fuzz", f"--seed={seed}"]
    words += [f"--time={time}"] if time is not None else []
    words += [f"--cases={cases}"] if cases is not None else []
    words += [f"--{key.replace('_', '-')}={value}" for key, value in flags.items()]
    return _expect_success(subject, words, echo)


def check(subject, case, *, echo=True):
    """Judges one case, given as its line of text."""
    return _expect_success(subject, ["check", case], echo)


def replay(subject, path, *, echo=True):
    """Judges stored failures again."""
    return _expect_success(subject, ["replay", str(path)], echo)
