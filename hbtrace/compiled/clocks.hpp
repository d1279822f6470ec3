// Vector clocks: what each actor knows of the others, and what slots hold.
#pragma once
#include <algorithm>
#include <utility>

#include "numbers.hpp"

namespace hb {

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
    i64 learnt = 0, added = 0;
    i64 *known = dense_.data();
    const i64 *other = news.data();
    for (size_t actor = 0, end = news.size(); actor < end; actor++) {
      learnt |= other[actor] > known[actor];
      added += (known[actor] == 0) & (other[actor] > 0);
      known[actor] = std::max(known[actor], other[actor]);
    }
    count_ += static_cast<u64>(added);
    return learnt != 0;
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
    return place == NONE ? nullptr : &held_[place];
  }

  // The entries of all clocks.
  u64 entries() const { return entries_; }

  void tick(u32 actor) {
    Clock &known = actors_[actor].known;
    set(known, actor, known.of(actor) + 1);
  }

  // `VC[queue] |= VC[thread]`; cheap where the thread only ticked since the queue last learnt from it.
  void issue(u32 queue, u32 thread) {
    u64 &seen = version_seen(queue, thread);
    u64 version = actors_[thread].version;
    if (seen != version) {
      seen = version;
      join(queue, thread);
      return;
    }
    i64 ticks = actors_[thread].known.of(thread);
    if (ticks <= actors_[queue].known.of(thread)) return;
    set(actors_[queue].known, thread, ticks);
    actors_[queue].version++;
  }

  void join(u32 actor, u32 other) { learn(actor, actors_[other].known); }

  void record(u32 actor, i64 slot) {
    Clock &held = slot_at(slot);
    entries_ -= held.count();
    held = actors_[actor].known;
    entries_ += held.count();
  }

  // Whether the slot holds more than before.
  bool release(u32 actor, i64 slot) { return raise(slot_at(slot), actors_[actor].known); }

  void wait(u32 actor, i64 slot) {
    u32 place = slots_.find(slot);
    if (place != NONE) learn(actor, held_[place]);
  }

  void drop(i64 slot) {
    u32 place = slots_.find(slot);
    if (place == NONE) return;
    entries_ -= held_[place].count();
    held_[place] = Clock();
    slots_.erase(slot);
  }

 private:
  struct Actor {
    i64 number = 0;
    Clock known;
    u64 version = 1;
    std::vector<std::pair<u32, u64>> seen;  // of threads, by place: the version that it last learnt from, 0 for none
  };

  u64 &version_seen(u32 queue, u32 thread) {
    auto &seen = actors_[queue].seen;
    auto found = std::lower_bound(seen.begin(), seen.end(), thread,
                                  [](const std::pair<u32, u64> &entry, u32 wanted) { return entry.first < wanted; });
    if (found == seen.end() || found->first != thread) found = seen.insert(found, {thread, 0});
    return found->second;
  }

  void learn(u32 actor, const Clock &news) { actors_[actor].version += raise(actors_[actor].known, news); }

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

  Clock &slot_at(i64 slot) {
    u32 place = slots_.place(slot);
    if (place >= held_.size()) held_.resize(place + size_t{1});
    return held_[place];
  }

  Numbers places_, slots_;
  std::vector<Actor> actors_;
  std::vector<Clock> held_;
  u64 entries_ = 0;
};

}  // namespace hb
