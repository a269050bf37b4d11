"""Stored failures, read without the program shardproof."""

import dataclasses

FORMAT_VERSION = 1


@dataclasses.dataclass
class Golden:
    """A stored failure: its one-line case, what was said of it, and its tensors by name."""
    case: str
    property: str
    verdict: str
    message: str
    tensor: str    # that failed
    element: int   # of it, row-major; -1: none
    inputs: dict   # arrays of inputs and upstream gradients
    got: dict      # outputs and gradients of the run
    want: dict     # of the reference, float64
    bound: dict    # the largest likely error of each element


def load(path):
    """Reads a golden with h5py. Raises ValueError where the file is none, or a newer one."""
    import h5py
    try:
        with h5py.File(path, "r") as file:
            version = int(file.attrs["format_version"])
            if _text(file.attrs["format"]) != "shardproof golden" or version > FORMAT_VERSION:
                raise ValueError(f"{path} is a golden of version {version}; this package reads "
                                 f"versions up to {FORMAT_VERSION}")
            case, claim, verdict, tensor = (_text(file.attrs[name]) for name in
                                            ("case", "property", "verdict", "tensor"))
            groups = [{name: item[()] for name, item in file[group].items()}
                      for group in ("inputs", "got", "want", "bound")]
            return Golden(case, claim, verdict, _text(file["message"][0]), tensor,
                          int(file.attrs["element"]), *groups)
    except (OSError, KeyError) as error:
        raise ValueError(f"{path} is no golden of shardproof: {error}") from error


def _text(value):
    text = value.decode() if isinstance(value, bytes) else str(value)
    return text.rstrip("\0")
