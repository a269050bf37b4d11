"""Campaigns of Python subjects: starts the program `shardproof` with the bridge as a plugin."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ._load import SERVING, Registered
from ._subjects import Subject, registry

HERE = Path(__file__).parent


class Unavailable(RuntimeError):
    """The program or its bridge is not where it should be, or it refused what it was asked."""


@dataclasses.dataclass
class Failure:
    """A distinct failure, shrunk."""
    subject: str
    property: str
    case: str     # one line; `check(subject, case)` judges it again
    message: str  # got, want and bound of the worst element
    golden: str   # the HDF5 file that load() and replay() read; empty: it could not be stored


@dataclasses.dataclass
class Report:
    """What a campaign found."""
    exit_code: int
    output: str
    failures: list
    summary: dict  # cases, holds, falsified, refused, vacuous, discarded, crashed, ..., seconds

    @property
    def ok(self):
        """Whether everything that was judged holds, and anything was judged."""
        return self.exit_code == 0


def _found(variable, name):
    """A file of the package, or what the environment names in its place."""
    path = os.environ.get(variable) or HERE / name
    if not Path(path).exists():
        path = shutil.which(Path(name).name) or path
    if not Path(path).exists():
        raise Unavailable(f"{path} does not exist; install the package, or name a build's "
                          f"{Path(name).name} in {variable}")
    return str(path)


def _chosen(subjects):
    chosen = list(subjects) or list(registry.values())
    for subject in chosen:
        if not isinstance(subject, Subject):
            raise TypeError(f"{subject!r} is no subject; decorate it with shardproof.attention or "
                            "shardproof.mlp")
    if not chosen:
        raise ValueError("there is no subject: decorate a function with shardproof.attention or "
                         "shardproof.mlp")
    return chosen


def run(command, subjects, arguments, quiet=False):
    """Runs `shardproof COMMAND ARGUMENTS` with these subjects; returns its exit code and output."""
    program = _found("SHARDPROOF_PROGRAM", "bin/shardproof")
    bridge = _found("SHARDPROOF_BRIDGE", "bin/shardproof_python.so")
    with tempfile.TemporaryDirectory() as folder:
        manifest = Path(folder) / "manifest.json"
        manifest.write_text(json.dumps({
            "interpreter": sys.executable, "path": [str(Path(p).resolve()) for p in sys.path],
            "subjects": [subject.manifest() for subject in subjects]}), encoding="utf-8")
        environment = dict(os.environ, SHARDPROOF_PYTHON_MANIFEST=str(manifest),
                           PYTHONPATH=os.pathsep.join([str(HERE.parent), *sys.path]))
        process = subprocess.Popen([program, command, f"--plugin={bridge}", *arguments],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env=environment)
        lines = []
        for line in process.stdout:
            lines.append(line)
            if not quiet:
                print(line, end="", flush=True)
    return process.wait(), "".join(lines)


def fuzz(*subjects, time="60s", cases=None, seed=None, jobs=None, goldens="shardproof_goldens",
         quiet=False, flags=()):
    """Fuzzes subjects (none: all that are decorated) and returns a Report.

    time: how long, "30s" or "5m"; cases: how many cases instead. seed: a number or a commit's hash.
    jobs: worker processes. goldens: the folder that failures are stored in. flags: more of those
    that `shardproof fuzz --help` lists. Raises Unavailable where nothing could be run.
    """
    if SERVING in os.environ:
        raise Registered
    chosen = _chosen(subjects)
    with tempfile.TemporaryDirectory() as folder:
        records = Path(folder) / "records.jsonl"
        limit = f"--time={time}" if cases is None else f"--cases={cases}"
        arguments = [limit, f"--json={records}", f"--goldens-out={goldens}"]
        arguments += [f"--subject={','.join(subject.name for subject in chosen)}"]
        arguments += [f"--seed={seed}"] if seed is not None else []
        arguments += [f"--jobs={jobs}"] if jobs is not None else []
        code, output = run("fuzz", chosen, [*arguments, *flags], quiet)
        if code == 2 or not records.exists():
            raise Unavailable(output.strip())
        parsed = [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()]
    failures = [Failure(r["subject"], r["property"], r["shrunk"], r["message"], r.get("golden", ""))
                for r in parsed if r["record"] == "failure"]
    summary = next((r for r in parsed if r["record"] == "summary"), {})
    return Report(code, output, failures, summary)


def check(subject, case, quiet=False, flags=()):
    """Judges one case, as Failure.case has it, by every property. Returns whether it holds."""
    if SERVING in os.environ:
        raise Registered
    code, output = run("check", [subject], [case, *flags], quiet)
    if code == 2:
        raise Unavailable(output.strip())
    return code == 0


def replay(subject, *goldens, quiet=False):
    """Runs stored failures, files or folders, again. Returns whether none fails any more."""
    if SERVING in os.environ:
        raise Registered
    code, output = run("replay", [subject], list(map(str, goldens)), quiet)
    if code == 2:
        raise Unavailable(output.strip())
    return code == 0


def assert_holds(*subjects, **options):
    """fuzz(), and an AssertionError with the one-line case of each failure where it finds any."""
    report = fuzz(*subjects, **{"quiet": True, **options})
    if report.ok:
        return report
    text = [f"{f.subject}: {f.property} is falsified\n  {f.message}\n  case:   {f.case}\n"
            f"  golden: {f.golden or 'could not be stored'}" for f in report.failures]
    raise AssertionError("\n".join(text) or report.output[-2000:])
