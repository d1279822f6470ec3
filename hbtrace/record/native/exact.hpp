// Exact mode: while the program sets its inputs, host buffers are write-protected, and every store traps, is noted,
// and is stepped over. Finds value-preserving stores, too. Slow: some microseconds a store.
#pragma once

#include "inputs.hpp"

namespace hbt::exact {

bool on();  // asked for, and possible on this machine
void write_stores(Inputs & inputs, const void * caller);
// In a fork's child.
void forget();

// The inputs are protected from here until `release`, and the stores kept until its end. Another thread's bracket waits
// as long: there is one list of stores, and one handler. The spool's lock is not held.
class Bracket {
  public:
    Bracket();
    ~Bracket();
    void release();
    Bracket(const Bracket &) = delete;
    Bracket & operator=(const Bracket &) = delete;

  private:
    bool on_ = false;
};

// A call of ggml's that writes to memory by itself, inside the bracket.
class Lifted {
  public:
    Lifted();
    ~Lifted();

  private:
    bool was_;
};

}  // namespace hbt::exact
