// Windows of coverage, as hbtrace/checks/windows.py counts them: the compiled twin.
#pragma once
#include <array>
#include <memory>

#include "clocks.hpp"
#include "program.hpp"

namespace hb {

// A set of places that is emptied at once.
class Places {
 public:
  void clear() { now_++; }

  // Whether it is new.
  bool add(size_t place) {
    if (place >= seen_.size()) seen_.resize(place + 1);
    if (seen_[place] == now_) return false;
    seen_[place] = now_;
    return true;
  }

 private:
  std::vector<u64> seen_;
  u64 now_ = 1;
};

struct Touch {
  u64 issue;  // serial number among all work issued
  i64 tick;   // of the queue
  u32 queue;
};

// Work that touched something, the newest last. Of a queue the newest counts: an older one that is still there is in no
// window that the newest is not in, and open in none.
class Touches {
 public:
  void add(const Touch &touch, Places &seen) {
    if (!list_.empty() && list_.back().queue == touch.queue) {
      list_.back() = touch;
      return;
    }
    if (list_.size() >= room_) thin(seen);
    list_.push_back(touch);
  }

  bool empty() const { return list_.empty(); }

  // Of work issued after `since`, the newest first, until `look` says that this is enough.
  template <class Look>
  void since(u64 since, Look look) const {
    for (auto touch = list_.rbegin(); touch != list_.rend() && touch->issue > since; ++touch)
      if (look(*touch)) return;
  }

 private:
  // Keep the newest of each queue.
  void thin(Places &seen) {
    seen.clear();
    size_t kept = list_.size();
    for (size_t k = list_.size(); k-- > 0;)
      if (seen.add(list_[k].queue)) list_[--kept] = list_[k];
    list_.erase(list_.begin(), list_.begin() + static_cast<std::ptrdiff_t>(kept));
    room_ = std::max<size_t>(8, 2 * list_.size());
  }

  std::vector<Touch> list_;
  size_t room_ = 8;
};

class Windows {
 public:
  enum Nature { INPUT, HOST_READ, FREE, TRANSFER, QUEUES, NATURES };  // in the order of WINDOWS

  std::array<i64, NATURES> all{}, open{};

  explicit Windows(const Clocks &clocks) : clocks_(clocks) {}

  // The footprints of the next chunk.
  void define(const Program &program) {
    if (program.forget_footprints) forget_footprints();
    for (i64 k = 0; k < program.count; k++) {
      u32 at = places_.place(program.footprints[k]);
      if (at < prints_.size()) throw BadProgram();  // nobody defines one twice
      Print print{narrow(sides_.size()), 0};
      seen_.clear();
      for (const i64 *piece = program.begin(k), *end = program.end(k); piece < end; piece += 5) {
        const Side side{space_at(piece[0]), piece[4] != 0};
        if (seen_.add(2 * size_t{side.space} + side.write)) sides_.push_back(side);
      }
      print.count = narrow(sides_.size()) - print.first;
      prints_.push_back(print);
    }
  }

  // Queued work that touches bytes: of what event, from which host thread, and whether it goes on when the call returns.
  void issued(u32 queue, i64 tick, i64 footprint, u32 thread, bool computes, bool ends, bool goes_on) {
    const Print print = print_at(footprint);
    const Who who{thread, queue};
    for (u32 k = print.first, end = k + print.count; k < end; k++)
      if (Memory *memory = memories_[sides_[k].space].get()) {
        const bool write = sides_[k].write;
        count(ends ? FREE : QUEUES, *memory, who, {memory->met(write, false), memory->met(write, true)});
      }
    if (!goes_on) return;
    const Touch touch{++issues_, tick, queue};
    if (computes) computing_.add(touch, seen_);
    for (u32 k = print.first, end = k + print.count; k < end; k++)
      memory_at(sides_[k].space).touched[sides_[k].write][!computes].add(touch, seen_);
  }

  // A host thread touches bytes; input: by an event that sets inputs, beside all work.
  void host(u32 thread, i64 footprint, bool ends, bool input) {
    const Print print = print_at(footprint);
    const Who who{thread, NONE};
    for (u32 k = print.first, end = k + print.count; k < end; k++) {
      const bool write = sides_[k].write;
      if (Memory *memory = memories_[sides_[k].space].get()) {
        const Met computing = memory->met(write, false), transfers = memory->met(write, true);
        if (ends) {
          count(FREE, *memory, who, {computing, transfers});
        } else {
          count(TRANSFER, *memory, who, {transfers});
          if (!write) count(HOST_READ, *memory, who, {computing});
        }
      }
      if (write && input && !computing_.empty()) count(INPUT, anywhere_, who, {{&computing_, nullptr}});
    }
  }

  // A space is never accessed again.
  void end(i64 number) {
    u32 place = spaces_.find(number);
    if (place == NONE) return;
    memories_[place].reset();
    ended_.push_back(number);  // footprints still name its place
  }

 private:
  struct Side {
    u32 space;
    bool write;
  };
  struct Print {
    u32 first, count;  // its sides
  };
  struct Who {
    u32 thread, queue;  // NONE where a thread acts itself
  };
  using Met = std::array<const Touches *, 2>;

  // What was done to one space.
  struct Memory {
    Touches touched[2][2];           // by whether it wrote, and whether it was a transfer
    std::array<u64, NATURES> counted{};  // up to which issue windows were counted

    // The work that an access can race with.
    Met met(bool write, bool transfers) const { return {&touched[1][transfers], write ? &touched[0][transfers] : nullptr}; }
  };

  // A window, if any of this work is not the queue's own and was issued since the last one.
  void count(Nature nature, Memory &memory, const Who &who, std::initializer_list<Met> met) {
    bool any = false, opened = false;
    for (const Met &sides : met)
      for (const Touches *touches : sides) {
        if (touches == nullptr || opened) continue;
        touches->since(memory.counted[nature], [&](const Touch &touch) {
          if (touch.queue == who.queue) return false;
          any = true;
          return opened = touch.queue == who.thread || touch.tick > clocks_.known(who.thread).of(touch.queue);
        });
      }
    if (!any) return;
    all[nature]++;
    open[nature] += opened;
    memory.counted[nature] = issues_;
  }

  const Print &print_at(i64 number) const {
    u32 place = places_.find(number);
    if (place == NONE) throw BadProgram();
    return prints_[place];
  }

  u32 space_at(i64 number) {
    u32 place = spaces_.place(number);
    if (place >= memories_.size()) memories_.resize(place + size_t{1});
    return place;
  }

  Memory &memory_at(u32 space) {
    if (!memories_[space]) memories_[space].reset(new Memory);
    return *memories_[space];
  }

  void forget_footprints() {
    places_.clear();
    prints_.clear();
    sides_.clear();
    for (i64 number : ended_) {
      u32 place = spaces_.find(number);
      if (place != NONE && !memories_[place]) spaces_.erase(number);
    }
    ended_.clear();
  }

  const Clocks &clocks_;
  Numbers places_, spaces_;
  std::vector<Print> prints_;
  std::vector<Side> sides_;
  std::vector<std::unique_ptr<Memory>> memories_;  // by place of a space; of many, nothing is known
  std::vector<i64> ended_;
  Touches computing_;
  Memory anywhere_;  // of inputs, which count beside all work, wherever they lie
  u64 issues_ = 0;
  Places seen_;
};

}  // namespace hb
