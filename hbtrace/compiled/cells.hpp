// Shadow memory's cells: those of a space are disjoint and sorted, and lie in leaves under one sorted list of branches.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "numbers.hpp"

namespace hb {

// An access: its epoch, NONE for no access, and its number within the event.
struct Entry {
  u32 epoch = NONE;
  u32 number = 0;
};

// What is remembered of bytes [lo, hi): the last write and, since then, the newest read of each actor.
struct Cell {
  i64 lo, hi;
  Entry write;
  Entry read;      // the only read; of several, all are in `more`
  u32 more = NONE;
  u32 home = NONE; // the resident footprint that speaks for it
  u32 atom = 0;    // which of its atoms
  u32 space;       // NONE where a leaf has no cell

  bool is(u32 space_, i64 lo_, i64 hi_) const { return lo == lo_ && hi == hi_ && space == space_; }
};
static_assert(sizeof(Cell) == 48 && std::is_trivially_copyable<Cell>::value, "cells are moved as bytes");

// Some neighbours of one space. Its memory is never given back before the pool's end, so a pointer to a cell may always
// be followed; what it meets there may be another cell.
struct Leaf {
  static constexpr u32 FULL = 64;
  u32 size, room;
  u64 unused;
  Cell *cells() { return reinterpret_cast<Cell *>(this + 1); }
};

class Leaves {
 public:
  Leaves() = default;
  Leaves(const Leaves &) = delete;
  Leaves &operator=(const Leaves &) = delete;
  ~Leaves() {
    for (Leaf *leaf : all_) std::free(leaf);
  }

  // An empty one for at least so many cells.
  Leaf *take(size_t count) {
    size_t size = count <= 2 ? 0 : count <= 8 ? 1 : count <= 24 ? 2 : 3;
    if (!free_[size].empty()) {
      Leaf *leaf = free_[size].back();
      free_[size].pop_back();
      return leaf;
    }
    all_.reserve(all_.size() + 1 > all_.capacity() ? 2 * all_.size() + 16 : all_.capacity());
    for (auto &unused : free_) unused.reserve(all_.capacity());  // giving back must not fail
    void *made = std::malloc(sizeof(Leaf) + ROOMS[size] * sizeof(Cell));
    if (made == nullptr) throw std::bad_alloc();
    Leaf *leaf = static_cast<Leaf *>(made);
    leaf->size = 0;
    leaf->room = ROOMS[size];
    std::memset(static_cast<void *>(leaf->cells()), 0xff, leaf->room * sizeof(Cell));
    all_.push_back(leaf);
    return leaf;
  }

  void give(Leaf *leaf) {
    shrink(*leaf, 0);
    size_t size = 0;
    while (ROOMS[size] != leaf->room) size++;
    free_[size].push_back(leaf);
  }

  static void shrink(Leaf &leaf, u32 size) {
    for (u32 slot = size; slot < leaf.size; slot++) leaf.cells()[slot].space = NONE;
    leaf.size = size;
  }

 private:
  static constexpr u32 ROOMS[4] = {2, 8, 24, Leaf::FULL};
  std::vector<Leaf *> all_, free_[4];
};

// Where a cell is, or would be put in.
struct Place {
  size_t branch, slot;
};

// The cells of one life of a buffer.
class Space {
 public:
  size_t size() const { return size_; }

  // The cell that is exactly [lo, hi), or nullptr.
  Cell *exact(i64 lo, i64 hi) {
    if (branches_.empty()) return nullptr;
    Leaf &leaf = *branches_[branch_of(lo)].leaf;
    size_t slot = slot_of(leaf, lo);
    Cell *cell = leaf.cells() + slot;
    return slot < leaf.size && cell->lo == lo && cell->hi == hi ? cell : nullptr;
  }

  // Copies of the cells that share a byte with [lo, hi), and the place of the first, or where it would be.
  Place overlapping(i64 lo, i64 hi, std::vector<Cell> &found) {
    found.clear();
    Place first{0, 0};
    if (branches_.empty()) return first;
    first.branch = branch_of(lo);
    first.slot = slot_of(*branches_[first.branch].leaf, lo);
    if (first.slot > 0 && branches_[first.branch].leaf->cells()[first.slot - 1].hi > lo) first.slot--;
    Place at = first;
    for (; at.branch < branches_.size(); at.branch++, at.slot = 0) {
      Leaf &leaf = *branches_[at.branch].leaf;
      for (; at.slot < leaf.size; at.slot++) {
        if (leaf.cells()[at.slot].lo >= hi) return first;
        found.push_back(leaf.cells()[at.slot]);
      }
    }
    return first;
  }

  // Put `count` cells in the place of `gone` ones from `at` on.
  void replace(Leaves &leaves, Place at, size_t gone, const Cell *fresh, size_t count) {
    size_t both = std::min(gone, count);
    for (size_t k = 0; k < both; k++) {
      settle(at);
      put(at, fresh[k]);
      at.slot++;
    }
    if (gone > both) erase(leaves, at, gone - both);
    for (size_t k = both; k < count; k++) insert(leaves, at, fresh[k]);
    size_ += count;
    size_ -= gone;
  }

  // All cells, in order.
  template <class Each>
  void each(Each each) {
    for (Branch &branch : branches_)
      for (u32 slot = 0; slot < branch.leaf->size; slot++) each(branch.leaf->cells()[slot]);
  }

  // Put these in the place of all there are.
  void rebuild(Leaves &leaves, const std::vector<Cell> &cells) {
    clear(leaves);
    for (size_t at = 0; at < cells.size(); at += Leaf::FULL) {
      size_t count = std::min<size_t>(Leaf::FULL, cells.size() - at);
      branches_.reserve((cells.size() + Leaf::FULL - 1) / Leaf::FULL);
      Leaf *leaf = leaves.take(count);
      std::memcpy(static_cast<void *>(leaf->cells()), &cells[at], count * sizeof(Cell));
      leaf->size = static_cast<u32>(count);
      branches_.push_back({cells[at].lo, leaf});
    }
    size_ = cells.size();
  }

  void clear(Leaves &leaves) {
    for (Branch &branch : branches_) leaves.give(branch.leaf);
    std::vector<Branch>().swap(branches_);
    size_ = 0;
  }

 private:
  struct Branch {
    i64 first;
    Leaf *leaf;
  };

  // The last branch that begins at or before `lo`, the first where none does.
  size_t branch_of(i64 lo) const {
    if (branches_.size() == 1) return 0;
    auto behind = std::upper_bound(branches_.begin() + 1, branches_.end(), lo,
                                   [](i64 wanted, const Branch &branch) { return wanted < branch.first; });
    return static_cast<size_t>(behind - branches_.begin()) - 1;
  }

  // The first cell that begins at `lo` or behind it.
  static size_t slot_of(Leaf &leaf, i64 lo) {
    Cell *cells = leaf.cells();
    return static_cast<size_t>(
        std::lower_bound(cells, cells + leaf.size, lo, [](const Cell &cell, i64 wanted) { return cell.lo < wanted; }) - cells);
  }

  void settle(Place &at) const {
    if (at.slot >= branches_[at.branch].leaf->size) at = {at.branch + 1, 0};
  }

  void put(Place at, const Cell &cell) {
    Branch &branch = branches_[at.branch];
    branch.leaf->cells()[at.slot] = cell;
    if (at.slot == 0) branch.first = cell.lo;
  }

  void erase(Leaves &leaves, Place &at, size_t gone) {
    settle(at);
    size_t empty_from = branches_.size(), empty_to = 0;
    for (Place from = at; gone > 0; from = {from.branch + 1, 0}) {
      Branch &branch = branches_[from.branch];
      Leaf &leaf = *branch.leaf;
      size_t here = std::min(gone, leaf.size - from.slot);
      Cell *cells = leaf.cells();
      size_t behind = leaf.size - from.slot - here;
      std::memmove(static_cast<void *>(cells + from.slot), cells + from.slot + here, behind * sizeof(Cell));
      Leaves::shrink(leaf, static_cast<u32>(leaf.size - here));
      gone -= here;
      if (leaf.size > 0) {
        branch.first = cells[0].lo;
        continue;
      }
      leaves.give(&leaf);
      empty_from = std::min(empty_from, from.branch);
      empty_to = from.branch + 1;
    }
    if (empty_from >= empty_to) return;
    branches_.erase(branches_.begin() + static_cast<std::ptrdiff_t>(empty_from),
                    branches_.begin() + static_cast<std::ptrdiff_t>(empty_to));
  }

  void insert(Leaves &leaves, Place &at, const Cell &cell) {
    if (branches_.empty()) {
      branches_.push_back({cell.lo, leaves.take(1)});
      at = {0, 0};
    } else if (branches_[at.branch].leaf->size == branches_[at.branch].leaf->room) {
      make_room(leaves, at);
    }
    Leaf &leaf = *branches_[at.branch].leaf;
    Cell *cells = leaf.cells();
    std::memmove(static_cast<void *>(cells + at.slot + 1), cells + at.slot, (leaf.size - at.slot) * sizeof(Cell));
    leaf.size++;
    put(at, cell);
    at.slot++;
  }

  // The leaf at `at` is full: a larger one, or two.
  void make_room(Leaves &leaves, Place &at) {
    Leaf *leaf = branches_[at.branch].leaf;
    bool append = at.slot == leaf->size && at.branch + 1 == branches_.size();
    u32 kept = leaf->room < Leaf::FULL ? 0 : append ? leaf->size : leaf->size / 2;
    Leaf *made = leaves.take(kept == 0 ? leaf->room + 1 : append ? 8 : Leaf::FULL);
    if (kept > 0) {
      Branch branch{append ? 0 : leaf->cells()[kept].lo, made};
      try {
        branches_.insert(branches_.begin() + static_cast<std::ptrdiff_t>(at.branch) + 1, branch);
      } catch (...) {
        leaves.give(made);
        throw;
      }
    }
    made->size = leaf->size - kept;
    std::memcpy(static_cast<void *>(made->cells()), leaf->cells() + kept, made->size * sizeof(Cell));
    if (kept == 0) {
      leaves.give(leaf);
      branches_[at.branch].leaf = made;
      return;
    }
    Leaves::shrink(*leaf, kept);
    if (at.slot > kept || append) at = {at.branch + 1, at.slot - kept};
  }

  std::vector<Branch> branches_;
  size_t size_ = 0;
};

}  // namespace hb
