"""python -m shardproof COMMAND FILE.py[:NAME] [ARGUMENT...]: `shardproof fuzz`, `check` or `replay`
with the subjects that a Python file decorates."""

import os
import sys

from . import _load, _run, _subjects


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("fuzz", "check", "replay"):
        print(__doc__, file=sys.stderr)
        return 2
    command, where, *arguments = sys.argv[1:]
    file, _, name = where.partition(":")
    os.environ[_load.SERVING] = "1"  # a campaign that the file asks for is not begun
    _load.load_file(file)
    del os.environ[_load.SERVING]
    here = {subject.name: subject for subject in _subjects.registry.values()
            if os.path.samefile(subject.where[1], file)}  # and not in what it imports
    if not here:
        print(f"{file} decorates no function", file=sys.stderr)
        return 2
    if name and name not in here:
        print(f"{file} has no subject {name}; it has: {', '.join(here)}", file=sys.stderr)
        return 2
    return _run.run(command, [here[name]] if name else list(here.values()), arguments)[0]


if __name__ == "__main__":
    sys.exit(main())
