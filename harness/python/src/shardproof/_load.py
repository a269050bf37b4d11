"""How a process finds the subjects of a file without beginning the campaigns that it asks for."""

import importlib
import runpy

SERVING = "SHARDPROOF_PYTHON_SERVING"
SCRIPT = "__shardproof__"  # __name__ of a script that is run for its subjects


class Registered(BaseException):
    """Ends the import of a script where it asks for a campaign: its subjects are there."""


def load_file(file):
    """Runs a script for the subjects that it decorates."""
    try:
        runpy.run_path(file, run_name=SCRIPT)
    except Registered:
        pass


def load(where):
    """Makes a subject's file register it, as [module, file] says where it is."""
    module, file = where
    if module in ("__main__", SCRIPT):
        load_file(file)
        return
    try:
        importlib.import_module(module)
    except Registered:
        pass
