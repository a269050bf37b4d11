"""The other side of bridge.cpp: reads requests from a socket, calls the function, answers. A
request is two 32-bit numbers, its kind and size, and its bytes; an answer is 0 or 1, a size, and
the tensors or the text of an error."""

import math
import os
import select
import struct
import threading
import traceback

import numpy

DESCRIBE, FORWARD, BACKWARD = range(3)
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")


class Reader:
    def __init__(self, memory):
        self.memory, self.at = memory, 0

    def number(self, letter):
        (value,) = struct.unpack_from("<" + letter, self.memory, self.at)
        self.at += struct.calcsize(letter)
        return value

    def array(self, dtype, shape):
        count = math.prod(shape)
        array = numpy.frombuffer(self.memory, dtype, count, self.at).reshape(shape)
        self.at += count * array.itemsize
        return array

    def shape(self):
        """(dtype, shape) of a tensor, or None."""
        ndim = self.number("i")
        if ndim < 0:
            return None
        code, bits = self.number("i"), self.number("i")
        if code != 2:  # kDLFloat
            raise TypeError("a tensor of a type that NumPy does not have")
        return f"f{bits // 8}", tuple(self.number("q") for _ in range(ndim))

    def tensor(self):
        known = self.shape()
        return None if known is None else self.array(*known)


def _checked(name, array, known):
    """The array as bytes of the tensor that is wanted, or an error that names it."""
    dtype, shape = known
    array = numpy.asarray(array)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {list(array.shape)}, not {list(shape)}")
    with numpy.errstate(all="ignore"):
        return numpy.ascontiguousarray(array, dtype).tobytes()


def _answer(names, arrays, wanted):
    return b"".join(_checked(name, array, known)
                    for name, array, known in zip(names, arrays, wanted) if known is not None)


def _attention_arguments(subject, reader):
    scale, softcap = reader.number("d"), reader.number("d")
    q, k, v, bias = (reader.tensor() for _ in range(4))
    mask = reader.array("u1", (q.shape[0], 1, q.shape[1], k.shape[1])) != 0
    reader.array("i8", (q.shape[1] + k.shape[1],))  # positions
    options = {"mask": mask, "scale": scale, "softcap": softcap, "bias": bias}
    options = {key: value for key, value in options.items() if key in subject.accepted}
    return (q, k, v), options, (bias, softcap)


def lse_of(q, k, mask, scale, bias, softcap):
    """What NumPy says, for functions that return no lse."""
    group = q.shape[2] // k.shape[2]
    z = numpy.einsum("bihd,bjhd->bhij", q, numpy.repeat(k, group, axis=2)) * q.dtype.type(scale)
    if softcap:
        z = q.dtype.type(softcap) * numpy.tanh(z / q.dtype.type(softcap))
    z = numpy.where(mask, z if bias is None else z + bias, -numpy.inf)
    top = z.max(axis=-1, keepdims=True)
    top = numpy.where(top == -numpy.inf, z.dtype.type(0), top)
    return (top[..., 0] + numpy.log(numpy.exp(z - top).sum(axis=-1))).astype(z.dtype)


def _attention(subject, kind, reader):
    arrays, options, (bias, softcap) = _attention_arguments(subject, reader)
    if kind == FORWARD:
        wanted = reader.shape(), reader.shape()
        result = subject.function(*arrays, **options)
        if not isinstance(result, tuple):
            result = result, lse_of(*arrays[:2], options["mask"], options["scale"], bias, softcap)
        return _answer(("out", "lse"), result, wanted)
    more = [reader.tensor() for _ in range(4)]
    wanted = [reader.shape() for _ in range(4)]
    result = list(subject.backward_function(*arrays, *more, **options))
    return _answer(("dq", "dk", "dv", "dbias"), result + [None] * (4 - len(result)), wanted)


def _mlp(subject, kind, reader):
    activation = ACTIVATIONS[reader.number("i")]
    x, w1, b1, wg, bg, w2, b2 = (reader.tensor() for _ in range(7))
    options = {"activation": activation}
    if "wg" in subject.accepted:
        options.update(wg=wg, bg=bg)
    if kind == FORWARD:
        return _answer(("y",), (subject.function(x, w1, b1, w2, b2, **options),),
                       (reader.shape(),))
    dy = reader.tensor()
    names = "dx", "dw1", "db1", "dwg", "dbg", "dw2", "db2"
    wanted = [reader.shape() for _ in names]
    gradients = subject.backward_function(x, w1, b1, w2, dy, **options)
    return _answer(names, [gradients.get(name) for name in names], wanted)


def _receive(connection, count):
    """`count` bytes, which the arrays that functions get are views of; None at the end."""
    memory = bytearray(count)
    view = memoryview(memory)
    while view:
        received = connection.recv_into(view)
        if received == 0:
            return None
        view = view[received:]
    return memory


def _end_with(connection):
    """Ends this process when the other side is gone, whatever the function is doing."""
    watch = select.poll()
    watch.register(connection, select.POLLRDHUP | select.POLLHUP)
    while not any(event & (select.POLLRDHUP | select.POLLHUP) for _, event in watch.poll()):
        pass
    os._exit(0)


def serve(subject, connection):
    """Answers until the other side is gone."""
    threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
    numpy.seterr(all="ignore")  # NaN and infinities belong to the data
    judge = _attention if subject.op == "attention" else _mlp
    while (head := _receive(connection, 8)) is not None:
        kind, size = struct.unpack("<II", head)
        request = _receive(connection, size)
        try:
            status = 0
            answer = (subject.description().encode() if kind == DESCRIBE
                      else judge(subject, kind, Reader(request)))
        except Exception as error:  # the function's: a verdict
            status = 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            answer = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})".encode()
        connection.sendall(struct.pack("<II", status, len(answer)) + answer)
