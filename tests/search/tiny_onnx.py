"""ONNX files small enough to write by hand: one Cast from a named int64 input to floats.

Protobuf by hand, because the package that writes such files is needed for nothing else.
"""

_INT64, _FLOAT = 7, 1


def cast_model(inputs: tuple[str, ...], kind: int = _INT64) -> bytes:
    """The first input comes out as floats; the others are ignored."""
    node = _text(1, inputs[0]) + _text(2, "output") + _text(4, "Cast")
    node += _part(5, _text(1, "to") + _number(3, _FLOAT) + _number(20, 2))
    graph = _part(1, node) + _text(2, "tiny")
    graph += b"".join(_part(11, _value(name, kind)) for name in inputs)
    graph += _part(12, _value("output", _FLOAT))
    return _number(1, 8) + _part(7, graph) + _part(8, _number(2, 13))


def _value(name: str, kind: int) -> bytes:
    """A matrix of any size."""
    axes = _part(1, _text(2, "batch")) + _part(1, _text(2, "sequence"))
    tensor = _number(1, kind) + _part(2, axes)
    return _text(1, name) + _part(2, _part(1, tensor))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, value: str) -> bytes:
    return _part(field, value.encode())


def _part(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])
