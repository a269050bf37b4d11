"""python -m shardproof._serve SOCKET MEMORY: runs subjects for the bridge until it goes away."""

import ctypes
import json
import mmap
import os
import signal
import socket
import struct
import sys
import traceback

import numpy as np

from . import _load, _subjects


def dtype_of(name):
    if name == "bf16":
        import ml_dtypes
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype({"f64": "f8", "f32": "f4", "f16": "f2", "bool": "?"}[name])


class Requests:
    def __init__(self, sock, memory_file, sources):
        self.sock, self.memory_file, self.sources = sock, memory_file, sources
        self.capacity, self.memory = 0, None

    def _read(self, count):
        data = b""
        while len(data) < count:
            part = self.sock.recv(count - len(data))
            if not part:
                sys.exit(0)
            data += part
        return data

    def next(self):
        size, = struct.unpack("=Q", self._read(8))
        return json.loads(self._read(size))

    def answer(self, answer):
        text = json.dumps(answer).encode()
        self.sock.sendall(struct.pack("=Q", len(text)) + text)

    def arrays(self, request):
        if request["capacity"] != self.capacity:
            self.capacity = request["capacity"]
            self.memory = mmap.mmap(self.memory_file, self.capacity)
        return {name: np.ndarray(t["shape"], dtype_of(t["dtype"]), self.memory, t["offset"])
                for name, t in request["tensors"].items()}

    def do(self, request):
        name = request["subject"]
        if name not in _subjects.registry:
            _load.load(self.sources[name])
        with np.errstate(all="ignore"):
            _subjects.registry[name].run(request["phase"], request["problem"],
                                         self.arrays(request))


def explain(error):
    """In a line: what was raised, and where."""
    frames = [f for f in traceback.extract_tb(error.__traceback__)
              if os.path.dirname(f.filename) != os.path.dirname(__file__)]
    where = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def main():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: die with the worker
    with open(os.environ["SHARDPROOF_PYTHON_MANIFEST"], encoding="utf-8") as file:
        manifest = json.load(file)
    os.environ[_load.SERVING] = "1"
    sys.path[:] = manifest["path"]
    sources = {subject["name"]: subject["where"] for subject in manifest["subjects"]}
    requests = Requests(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), sources)
    while True:
        request = requests.next()
        try:
            requests.do(request)
            requests.answer({})
        except Exception as error:  # whatever a tested function raises
            requests.answer({"error": explain(error)})


if __name__ == "__main__":
    main()
