"""What can be read only once, read again: batches that are kept in a temporary file while they pass.

Only for standard input and pipes. The file has no name, is compressed, and is gone with the object.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.ipc

from hbtrace.trace.schema import SCHEMA

_IPC: Final = pa.ipc.IpcWriteOptions(compression="lz4")


class Spool:
    """Hands batches on and keeps them. Where there is no room on the disk `whole` is false, and the run goes on."""

    def __init__(self) -> None:
        self.whole = True
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this object

    def passing(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches of the canonical schema, unchanged."""
        writer = pa.ipc.new_stream(self._file, SCHEMA, options=_IPC)
        for batch in batches:
            if self.whole:
                try:
                    writer.write_batch(batch)
                except OSError:
                    self.whole = False
            yield batch
        try:
            writer.close()
        except OSError:
            self.whole = False

    def again(self) -> Iterator[pa.RecordBatch]:
        """The same batches, once they all have passed; none if they could not be kept."""
        if not self.whole:
            return
        self._file.flush()
        self._file.seek(0)
        yield from pa.ipc.open_stream(self._file)
