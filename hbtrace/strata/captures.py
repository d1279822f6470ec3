"""The captures of one run of Strata as one trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hbtrace.errors import TraceError
from hbtrace.importers import LogFile
from hbtrace.importers.source import chunks, cut_off
from hbtrace.strata.registration import LOG

if TYPE_CHECKING:
    import pyarrow as pa

    from hbtrace.strata.logs.importer import LogSettings


@dataclass(slots=True)
class StrataCaptures:
    """The captures of one Strata run as a trace, with what no log tells."""

    paths: Sequence[str]
    settings: LogSettings
    rows: int = 0
    dropped_bytes: int = 0
    warnings: list[str] = field(default_factory=list)
    path: str = ""

    def __post_init__(self) -> None:
        self.path = self.paths[0]

    @property
    def kind(self) -> str:
        return LOG

    @property
    def partial(self) -> bool:
        return self.dropped_bytes > 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        from hbtrace.strata.logs.importer import events_of
        from hbtrace.strata.logs.run import CaptureError
        from hbtrace.trace.rows import batch_from_rows

        self.warnings.clear()
        try:
            logs = [LogFile(path) for path in self.paths]
            for rows in chunks(events_of(logs, self.settings, self.warnings)):
                self.rows += len(rows)
                yield batch_from_rows(rows)
            self.dropped_bytes = cut_off(LOG, logs, self.warnings)
        except OSError as error:
            raise TraceError(f"{error.filename or self.path}: cannot be read: {error.strerror}") from None
        except CaptureError:  # it names the one that is wrong
            raise
        except TraceError as error:
            raise TraceError(f"{', '.join(self.paths)}: {error}") from None
