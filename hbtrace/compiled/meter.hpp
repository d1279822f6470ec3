// The meter: what a run exercised, by its steps. The compiled twin of hbtrace/checks/steps.py.
#pragma once
#include <unordered_set>

#include "windows.hpp"

namespace hb {

class Meter {
 public:
  Meter() = default;
  Meter(const Meter &) = delete;
  Meter &operator=(const Meter &) = delete;

  // Of the rows that a chunk's steps are of: what the event of each is, its split, -1 for none.
  struct Rows {
    const uint8_t *kinds;
    const i64 *splits;
    i64 first, count;
  };

  // The work of this actor is complete when the call returns.
  void waits(i64 actor) { at(clocks_.actor(actor)).goes_on = false; }

  // Count one chunk. Where it throws BadProgram or bad_alloc, the meter is of no more use.
  void run(const Program &program, const Rows &rows);

  // HB_COUNTED integers.
  const i64 *counted();

 private:
  // The computes and kernels of an actor, if it is an asynchronous queue.
  struct Queue {
    std::vector<i64> pending;  // by tick, from `done` on
    size_t done = 0, most = 0;
    i64 computes = 0, at_once = 0;
    u64 fresh = 0;  // of the newest: how often the host had acted when it was issued; 0 if another's turn came
    bool goes_on = true;
  };

  Queue &at(u32 actor) {
    if (actor >= queues_.size()) queues_.resize(actor + size_t{1});
    return queues_[actor];
  }
  void queue(u32 actor, u32 thread, i64 footprint, uint8_t kind, i64 split);
  void host(u32 thread, i64 footprint, uint8_t kind, i64 split);
  void computed(Queue &queue, i64 tick, i64 known, i64 split);
  void waited(Queue &queue);

  Clocks clocks_;
  Windows windows_{clocks_};
  std::vector<Queue> queues_;  // by place of an actor
  std::unordered_set<i64> splits_;
  bool in_pieces_ = false;  // one of these splits was computed more than once
  i64 per_node_ = 0;
  u64 hosts_ = 1;  // steps of the host so far, and one
  std::array<i64, 15> counted_{};  // HB_COUNTED
};

}  // namespace hb
