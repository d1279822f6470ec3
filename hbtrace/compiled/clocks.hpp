// Vector clocks: what each actor knows of the others, and what slots hold.
#pragma once
#include <algorithm>
#include <utility>

#include "numbers.hpp"

namespace hb {

// The oldest machines of a platform compare no two 64-bit integers at once. Where the loader can choose, newer ones do.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define HB_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define HB_CLONES
#endif

// The element-wise maximum; whether anything of it was new, and how many were 0.
HB_CLONES inline bool raise_all(i64 *__restrict known, const i64 *__restrict news, size_t count, i64 &added) {
  i64 learnt = 0, fresh = 0;
  for (size_t k = 0; k < count; k++) {
    learnt |= news[k] > known[k];
    fresh += (known[k] == 0) & (news[k] > 0);
    known[k] = std::max(known[k], news[k]);
  }
  added = fresh;
  return learnt != 0;
}

// One vector clock. Dense while that takes at most eight times the room of its entries, else a sorted list: as many
// queues as a trace can have, each of which knows two actors, take no square of their number.
class Clock {
 public:
  // Up to where an actor is known, 0 for not at all.
  i64 of(u32 actor) const {
    if (!thin_) return actor < dense_.size() ? dense_[actor] : 0;
    auto found = seek(actor);
    return found != list_.end() && found->first == actor ? found->second : 0;
  }

  // Entries that are not 0.
  u64 count() const { return count_; }

  // (actor, clock) of each of them, by actor.
  template <class Each>
  void each(Each each) const {
    for (auto &[actor, clock] : list_) each(actor, clock);
    for (size_t actor = 0; actor < dense_.size(); actor++)
      if (dense_[actor] > 0) each(static_cast<u32>(actor), dense_[actor]);
  }

  bool operator==(const Clock &other) const {
    bool same = count_ == other.count_;
    if (same) each([&](u32 actor, i64 clock) { same &= other.of(actor) == clock; });
    return same;
  }

  // Know an actor up to `clock`, which is more than before.
  void set(u32 actor, i64 clock) {
    if (!thin_ && actor >= dense_.size()) {
      if (dense_pays(actor + u64{1}, count_ + 1)) dense_.resize(actor + size_t{1});
      else make_thin();
    }
    if (!thin_) {
      count_ += dense_[actor] == 0;
      dense_[actor] = clock;
      return;
    }
    auto found = list_.begin() + (seek(actor) - list_.cbegin());
    if (found != list_.end() && found->first == actor) {
      found->second = clock;
      return;
    }
    list_.insert(found, {actor, clock});
    count_++;
    make_dense_if_it_pays();
  }

  // The element-wise maximum; whether anything of it was new.
  bool raise(const Clock &news) {
    if (&news == this) return false;
    if (!thin_ && !news.thin_) return raise_dense(news.dense_);
    if (thin_) return raise_list(news);
    bool learnt = false;
    for (auto &[actor, clock] : news.list_) {
      if (clock <= of(actor)) continue;
      set(actor, clock);
      learnt = true;
    }
    return learnt;
  }

 private:
  using List = std::vector<std::pair<u32, i64>>;

  static bool dense_pays(u64 span, u64 count) { return span <= 16 || span <= 8 * count; }

  List::const_iterator seek(u32 actor) const {
    return std::lower_bound(list_.begin(), list_.end(), actor,
                            [](const std::pair<u32, i64> &entry, u32 wanted) { return entry.first < wanted; });
  }

  bool raise_dense(const std::vector<i64> &news) {
    if (news.size() > dense_.size()) dense_.resize(news.size());  // pays here, for it pays with fewer entries there
    i64 added = 0;
    bool learnt = raise_all(dense_.data(), news.data(), news.size(), added);
    count_ += static_cast<u64>(added);
    return learnt;
  }

  // For a list: one pass over both.
  bool raise_list(const Clock &news) {
    List merged;
    merged.reserve(list_.size() + news.count_);
    bool learnt = false;
    size_t at = 0;
    auto take = [&](u32 actor, i64 clock) {
      while (at < list_.size() && list_[at].first < actor) merged.push_back(list_[at++]);
      i64 before = at < list_.size() && list_[at].first == actor ? list_[at++].second : 0;
      merged.emplace_back(actor, std::max(before, clock));
      learnt |= clock > before;
    };
    if (news.thin_) {
      for (auto &[actor, clock] : news.list_) take(actor, clock);
    } else {
      for (size_t actor = 0; actor < news.dense_.size(); actor++)
        if (news.dense_[actor] > 0) take(static_cast<u32>(actor), news.dense_[actor]);
    }
    if (!learnt) return false;
    merged.insert(merged.end(), list_.begin() + static_cast<std::ptrdiff_t>(at), list_.end());
    list_.swap(merged);
    count_ = list_.size();
    make_dense_if_it_pays();
    return true;
  }

  void make_thin() {
    List made;
    made.reserve(count_ + 1);
    for (size_t actor = 0; actor < dense_.size(); actor++)
      if (dense_[actor] > 0) made.emplace_back(static_cast<u32>(actor), dense_[actor]);
    list_.swap(made);
    std::vector<i64>().swap(dense_);
    thin_ = true;
  }

  void make_dense_if_it_pays() {
    if (!dense_pays(list_.back().first + u64{1}, count_)) return;
    dense_.assign(list_.back().first + size_t{1}, 0);
    for (auto &[actor, clock] : list_) dense_[actor] = clock;
    List().swap(list_);
    thin_ = false;
  }

  std::vector<i64> dense_;
  List list_;
  u64 count_ = 0;
  bool thin_ = false;
};

// From which version of others an actor last learnt: of up to as many as it has learnt from, of others it is forgotten,
// and then all is looked at again.
class Seen {
 public:
  // The version of an actor, 0 for none.
  u64 &of(u32 actor) {
    if (entries_.empty()) entries_.resize(1, {NONE, 0});
    while (at(actor).first != actor && at(actor).first != NONE && entries_.size() < std::min(AT_MOST, 4 * count_)) grow();
    auto &entry = at(actor);
    count_ += entry.first == NONE;
    if (entry.first != actor) entry = {actor, 0};
    return entry.second;
  }

 private:
  static constexpr size_t AT_MOST = 1024;
  using Entry = std::pair<u32, u64>;

  Entry &at(u32 actor) { return entries_[actor & (entries_.size() - 1)]; }

  void grow() {
    std::vector<Entry> before(2 * entries_.size(), {NONE, 0});
    before.swap(entries_);
    for (Entry &entry : before)
      if (entry.first != NONE) at(entry.first) = entry;
  }

  std::vector<Entry> entries_;
  size_t count_ = 0;
};

// The clocks of all actors and slots. Actors are known here by their places, in the order in which they appear.
class Clocks {
 public:
  Clocks() { actor(0); }  // the host has place 0

  u32 actor(i64 number) {
    u32 place = places_.place(number);
    if (place == actors_.size()) {
      actors_.emplace_back();
      actors_.back().number = number;
    }
    return place;
  }

  i64 number(u32 actor) const { return actors_[actor].number; }
  const Clock &known(u32 actor) const { return actors_[actor].known; }

  // Counts what it learnt of others.
  u64 version(u32 actor) const { return actors_[actor].version; }

  // What a slot holds, nullptr for nothing.
  const Clock *held(i64 slot) const {
    u32 place = slots_.find(slot);
    return place == NONE ? nullptr : &held_[place].known;
  }

  // The entries of all clocks.
  u64 entries() const { return entries_; }

  void tick(u32 actor) {
    Clock &known = actors_[actor].known;
    set(known, actor, known.of(actor) + 1);
  }

  // `VC[actor] |= VC[other]`; cheap where the other only ticked since the actor last learnt from it.
  void join(u32 actor, u32 other) {
    if (actor == other) return;
    const Actor &from = actors_[other];
    learn(actor, from.known, other, from.version, from.known.of(other));
  }

  void record(u32 actor, i64 slot) {
    Slot &held = slot_at(slot);
    const Actor &from = actors_[actor];
    i64 ticks = from.known.of(actor);
    if (held.source == actor && held.version == from.version) {
      if (ticks > held.ticks) set(held.known, actor, ticks);
    } else {
      entries_ -= held.known.count();
      held.known = from.known;
      entries_ += held.known.count();
    }
    held.source = actor;
    held.version = from.version;
    held.ticks = ticks;
  }

  // Whether the slot holds more than before.
  bool release(u32 actor, i64 slot) {
    Slot &held = slot_at(slot);
    held.source = NONE;  // it is of several
    return raise(held.known, actors_[actor].known);
  }

  void wait(u32 actor, i64 slot) {
    u32 place = slots_.find(slot);
    if (place == NONE) return;
    const Slot &held = held_[place];
    if (held.source == NONE) actors_[actor].version += raise(actors_[actor].known, held.known);
    else if (held.source != actor) learn(actor, held.known, held.source, held.version, held.ticks);
  }

  void drop(i64 slot) {
    u32 place = slots_.find(slot);
    if (place == NONE) return;
    entries_ -= held_[place].known.count();
    held_[place] = Slot();
    slots_.erase(slot);
  }

 private:
  struct Actor {
    i64 number = 0;
    Clock known;
    u64 version = 1;  // counts what it learnt of others
    Seen seen;
  };
  struct Slot {
    Clock known;
    u32 source = NONE;  // whose clock it was, at this version and this tick of its own; NONE where it is of several
    u64 version = 0;
    i64 ticks = 0;
  };

  // The maximum with what `source` knew at a version and a tick of it.
  void learn(u32 actor, const Clock &news, u32 source, u64 version, i64 ticks) {
    u64 &seen = actors_[actor].seen.of(source);
    Clock &known = actors_[actor].known;
    if (seen < version) {
      seen = version;
      actors_[actor].version += raise(known, news);
    } else if (ticks > known.of(source)) {
      set(known, source, ticks);
      actors_[actor].version++;
    }
  }

  bool raise(Clock &known, const Clock &news) {
    u64 before = known.count();
    bool learnt = known.raise(news);
    entries_ += known.count() - before;
    return learnt;
  }

  void set(Clock &known, u32 actor, i64 clock) {
    u64 before = known.count();
    known.set(actor, clock);
    entries_ += known.count() - before;
  }

  Slot &slot_at(i64 slot) {
    u32 place = slots_.place(slot);
    if (place >= held_.size()) held_.resize(place + size_t{1});
    return held_[place];
  }

  Numbers places_, slots_;
  std::vector<Actor> actors_;
  std::vector<Slot> held_;
  u64 entries_ = 0;
};

}  // namespace hb
