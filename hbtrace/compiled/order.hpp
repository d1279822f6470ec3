// The order of a trace without its memory: the compiled twin of hbtrace/replay/clocks.py.
#pragma once
#include "clocks.hpp"
#include "program.hpp"

namespace hb {

class Order {
 public:
  // Do the steps of one chunk. Where it throws BadProgram or bad_alloc, the order is of no more use.
  void run(const i64 *code, i64 count) {
    steps.clear();
    bounds.assign({0, 0});
    pairs.clear();
    chunk_++;
    for (const i64 *at = code, *end = code + 5 * count; at < end; at += 5) {
      if (at[0] == DROP || at[0] == END) {
        if (at[0] == DROP) clocks_.drop(at[2]);
        steps.insert(steps.end(), {0, 0, 0});
        continue;
      }
      const u32 actor = clocks_.actor(at[1]);
      const bool learnt = step(at[0], actor, at[2]);
      const i64 tick = clocks_.known(actor).of(actor), known = known_now(actor);
      steps.insert(steps.end(), {tick, known, learnt});
    }
  }

  i64 count() const { return static_cast<i64>(bounds.size()) - 1; }

  std::vector<i64> steps, bounds{0, 0}, pairs;  // as the interface has them

 private:
  // Which of the clocks an actor's was when it was last told.
  struct Told {
    u64 chunk = 0, version = 0;
    i64 at = 0;
  };

  // Whether anybody learnt something.
  bool step(i64 op, u32 actor, i64 other) {
    const u64 version = clocks_.version(actor);
    switch (op) {
      case QUEUE:
        clocks_.join(actor, clocks_.actor(other));
        clocks_.tick(actor);
        break;
      case HOST: clocks_.tick(actor); break;
      case JOIN: {
        const u32 joined = clocks_.actor(other);
        clocks_.join(actor, joined);
        break;
      }
      case WAIT: clocks_.wait(actor, other); break;
      case RECORD: {
        const Clock *held = clocks_.held(other);
        const bool same = held != nullptr && *held == clocks_.known(actor);
        clocks_.record(actor, other);
        return !same;
      }
      case RELEASE: return clocks_.release(actor, other);
      case ALSO: break;
      default: throw BadProgram();
    }
    return clocks_.version(actor) != version;
  }

  // What an actor knows of others, as one of the clocks.
  i64 known_now(u32 actor) {
    const Clock &known = clocks_.known(actor);
    if (known.count() - (known.of(actor) > 0) == 0) return 0;
    if (actor >= told_.size()) told_.resize(actor + size_t{1});
    Told &told = told_[actor];
    if (told.chunk == chunk_ && told.version == clocks_.version(actor)) return told.at;
    told = {chunk_, clocks_.version(actor), count()};
    known.each([&](u32 other, i64 clock) {
      if (other != actor) pairs.insert(pairs.end(), {clocks_.number(other), clock});
    });
    bounds.push_back(static_cast<i64>(pairs.size()));
    return told.at;
  }

  Clocks clocks_;
  std::vector<Told> told_;  // by place of an actor
  u64 chunk_ = 0;
};

}  // namespace hb
