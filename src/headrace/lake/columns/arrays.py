"""Arrow arrays of values that lie in a buffer, without a copy of the buffer and without a loop.

Texts and bytes of one column lie in the buffer in the order of their records, with other bytes in between. So
the buffer is an Arrow array of twice as many values, every second of which is wanted: taking these is one
call.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from headrace.lake.columns.unusual import UnusualRecordsError
from headrace.wire.column_reader import Bytes, Flags, Numbers

_DECIMAL_BYTES: Final = 16
# Offsets of Arrow's usual arrays have 31 bits.
LARGEST_BUFFER: Final = 2**31 - 1


def binaries(buffer: Bytes, start: Numbers, length: Numbers, valid: Flags | None = None) -> pa.Array:
    """The bytes of each slice, which follow each other in the buffer; null where it is not `valid`."""
    count = len(start)
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0:-1:2] = start
    offsets[1::2] = start + length
    offsets[-1] = offsets[-2] if count else 0
    values = pa.Array.from_buffers(
        pa.binary(), 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(buffer)]
    )
    wanted = np.arange(0, 2 * count, 2)
    return values.take(pa.array(wanted, mask=None if valid is None else ~valid))


def texts(buffer: Bytes, start: Numbers, length: Numbers, valid: Flags | None = None) -> pa.Array:
    """Raises UnusualRecordsError if a slice is not UTF-8."""
    try:
        return binaries(buffer, start, length, valid).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise UnusualRecordsError("a text is not UTF-8") from error


def decimals(
    buffer: Bytes, start: Numbers, length: Numbers, kind: pa.DataType, valid: Flags | None = None
) -> pa.Array:
    """Big-endian numbers of 1 to 16 bytes. Raises UnusualRecordsError for one with too many digits."""
    back = np.arange(_DECIMAL_BYTES)
    # Little-endian, as Arrow has them: the last byte of the slice comes first.
    place = (start + length - 1)[:, None] - back
    found = buffer[np.maximum(place, 0)]
    sign = np.where(buffer[start] & 0x80, np.uint8(0xFF), np.uint8(0))
    content = np.ascontiguousarray(np.where(back < length[:, None], found, sign[:, None]))
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    numbers = pa.Array.from_buffers(kind, len(start), [bits, pa.py_buffer(content)])
    try:
        numbers.validate(full=True)
    except pa.ArrowInvalid as error:
        raise UnusualRecordsError("a decimal has too many digits for its column") from error
    return numbers
