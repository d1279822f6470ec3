// Exact mode: while the program sets its inputs, host buffers are write-protected, and every store traps, is noted,
// and is stepped over. Finds value-preserving stores, too. Slow: some microseconds a store.
#pragma once

#include "inputs.hpp"

namespace hbt::exact {

bool on();          // asked for, and possible on this machine
void protect();     // the bracket begins (the lock is held)
void release();     // it ends, or a call that writes by itself is about to run
void write_stores(Inputs & inputs, const void * caller);

// A call of ggml's that writes to memory by itself, inside the bracket.
class Lifted {
  public:
    Lifted();
    ~Lifted();

  private:
    bool was_;
};

}  // namespace hbt::exact
