// The one slot that the scheduler calls directly: the asynchronous copy between queues.
#pragma once

#include "ggml_names.hpp"

namespace hbt {

// Puts our function into a backend's slot, and remembers what was there. The lock is held.
void patch(ggml_backend * backend);
void unpatch(ggml_backend * backend);

}  // namespace hbt
