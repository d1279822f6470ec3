// From an exception to a status.
#pragma once
#include "hbtrace.h"
#include "numbers.hpp"

namespace hb {

// Run it; what it throws is the object's status from now on.
template <class Work>
inline int32_t guarded(int32_t &status, Work work) {
  if (status != HB_OK) return status;
  try {
    work();
  } catch (const BadProgram &) {
    status = HB_BAD_PROGRAM;
  } catch (const BadBatch &) {
    status = HB_BAD_BATCH;
  } catch (...) {  // bad_alloc, or length_error: as good as
    status = HB_NO_MEMORY;
  }
  return status;
}

}  // namespace hb
