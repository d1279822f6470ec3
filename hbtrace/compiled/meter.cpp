#include "meter.hpp"

#include "hbtrace.h"

namespace hb {

void Meter::run(const Program &program, const Rows &rows) {
  windows_.define(program);
  for (const i64 *at = program.code, *end = at + 5 * program.steps; at < end; at += 5) {
    const i64 a = at[1], b = at[2], footprint = at[3];
    const u64 row = static_cast<u64>(at[4]) - static_cast<u64>(rows.first);
    if (row >= static_cast<u64>(rows.count)) throw BadProgram();
    switch (at[0]) {
      case QUEUE: {
        const u32 actor = clocks_.actor(a), thread = clocks_.actor(b);
        clocks_.join(actor, thread);
        clocks_.tick(actor);
        queue(actor, thread, footprint, rows.kinds[row], rows.splits[row]);
        break;
      }
      case HOST: {
        const u32 thread = clocks_.actor(a);
        clocks_.tick(thread);
        host(thread, footprint, rows.kinds[row], rows.splits[row]);
        break;
      }
      case JOIN: {
        const u32 actor = clocks_.actor(a), other = clocks_.actor(b);
        clocks_.join(actor, other);
        if (rows.kinds[row] & HB_HOST_WAITS && other < queues_.size()) waited(queues_[other]);
        break;
      }
      case RECORD: clocks_.record(clocks_.actor(a), b); break;
      case RELEASE: clocks_.release(clocks_.actor(a), b); break;
      case WAIT: clocks_.wait(clocks_.actor(a), b); break;
      case DROP: clocks_.drop(b); break;
      case END: windows_.end(a); break;
      case ALSO: break;
      default: throw BadProgram();
    }
  }
}

void Meter::queue(u32 actor, u32 thread, i64 footprint, uint8_t kind, i64 split) {
  Queue &its = at(actor);
  const i64 tick = clocks_.known(actor).of(actor);
  const bool computes = kind & HB_COMPUTES;
  if (footprint >= 0) windows_.issued(actor, tick, footprint, thread, computes, kind & HB_ENDS, its.goes_on);
  if (!its.goes_on) return;
  if (computes) computed(its, tick, actor == thread ? 0 : clocks_.known(thread).of(actor), split);
  else its.fresh = 0;
}

void Meter::computed(Queue &queue, i64 tick, i64 known, i64 split) {
  auto &pending = queue.pending;
  while (queue.done < pending.size() && pending[queue.done] <= known) queue.done++;
  if (queue.done >= 16 && 2 * queue.done >= pending.size()) {
    pending.erase(pending.begin(), pending.begin() + static_cast<std::ptrdiff_t>(queue.done));
    queue.done = 0;
  }
  pending.push_back(tick);
  queue.most = std::max(queue.most, pending.size() - queue.done);
  queue.computes++;
  queue.fresh = hosts_;
  if (split >= 0 && !splits_.insert(split).second) in_pieces_ = true;
}

void Meter::host(u32 thread, i64 footprint, uint8_t kind, i64 split) {
  hosts_++;
  if (footprint < 0) return;
  const bool input = kind & HB_HOST_WRITES && split == -1;
  if (input) {
    per_node_ += in_pieces_;
    in_pieces_ = false;
    if (!splits_.empty()) std::unordered_set<i64>().swap(splits_);  // clearing takes as long as it ever was large
  }
  windows_.host(thread, footprint, kind & HB_ENDS, input);
}

void Meter::waited(Queue &queue) {
  if (queue.fresh != hosts_) return;
  queue.at_once++;
  queue.fresh = 0;
}

const i64 *Meter::counted() {
  i64 queues = 0, most = 0, serial = 0, waited = 0;
  for (const Queue &queue : queues_) {
    if (queue.computes == 0) continue;
    queues++;
    most = std::max(most, static_cast<i64>(queue.most));
    serial += queue.most < 2;
    waited += queue.computes > 1 && queue.at_once == queue.computes;
  }
  static_assert(5 + 2 * Windows::NATURES == HB_COUNTED && std::tuple_size<decltype(counted_)>::value == HB_COUNTED,
                "one size of what was counted");
  counted_ = {queues, most, serial, waited, per_node_};
  std::copy(windows_.all.begin(), windows_.all.end(), counted_.begin() + 5);
  std::copy(windows_.open.begin(), windows_.open.end(), counted_.begin() + 5 + Windows::NATURES);
  return counted_.data();
}

}  // namespace hb
