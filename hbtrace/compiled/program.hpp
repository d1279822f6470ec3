// One chunk of a trace, as hbtrace/replay/program.py has it.
#pragma once
#include "numbers.hpp"

namespace hb {

enum Op { HOST, QUEUE, JOIN, RECORD, RELEASE, WAIT, DROP, END, ALSO };

struct Program {
  const i64 *code;
  i64 steps;
  const i64 *footprints, *bounds;
  i64 count;
  const i64 *pieces;
  i64 integers;  // of pieces
  bool forget_footprints;

  // The pieces of its k-th footprint, from first to behind last. Throws BadProgram where they are not there.
  const i64 *begin(i64 k) const {
    const i64 from = bounds[k], to = bounds[k + 1];
    if (from < 0 || to < from || to > integers || (to - from) % 5 != 0) throw BadProgram();
    return pieces + from;
  }
  const i64 *end(i64 k) const { return pieces + bounds[k + 1]; }
};

}  // namespace hb
