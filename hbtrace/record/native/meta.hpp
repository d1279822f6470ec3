// Row 0 of the trace, and the notes that say what could not be recorded.
#pragma once

namespace hbt {

// Writes `meta` once a process; false when the probe failed and nothing can be recorded. The lock is held.
bool begin_trace();
void forget_meta();

}  // namespace hbt
