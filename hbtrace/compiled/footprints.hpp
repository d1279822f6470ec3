// Footprints cut into atoms, as hbtrace/replay/footprint.py does it.
#pragma once
#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "cells.hpp"

namespace hb {

// Bytes of a space over which the same accesses of one epoch lie; -1 for no access.
struct Atom {
  i64 lo, hi;
  Cell *hint;  // where its cell was last; it may be another's by now
  u32 space;
  i32 first_write = -1, last_write = -1, last_read = -1;
  u32 reads_at = 0, reads = 0;  // reads before the first write
};
static_assert(sizeof(Atom) == 48, "an atom is as large as a cell");

// A large footprint as an actor last accessed it: which atoms need a visit before its epoch may move on.
class Resident {
 public:
  Resident(u32 epoch, u32 atoms) : epoch(epoch), words_((atoms + u64{63}) / 64, ~u64{0}), count_(atoms), end_(words_.size()) {
    if (atoms % 64) words_.back() = (u64{1} << atoms % 64) - 1;
  }

  u32 epoch;

  bool stale() const { return count_ > 0; }

  void mark(u32 atom) {
    u64 bit = u64{1} << atom % 64;
    size_t word = atom / 64;
    if (words_[word] & bit) return;
    words_[word] |= bit;
    begin_ = count_ == 0 ? word : std::min(begin_, word);
    end_ = count_ == 0 ? word + 1 : std::max(end_, word + 1);
    count_++;
  }

  // The stale atoms, in order; then none is.
  void take(std::vector<u32> &atoms) {
    atoms.clear();
    for (size_t word = begin_; word < end_; word++) {
      for (u64 bits = words_[word]; bits != 0; bits &= bits - 1)
        atoms.push_back(static_cast<u32>(word * 64 + static_cast<size_t>(__builtin_ctzll(bits))));
      words_[word] = 0;
    }
    count_ = 0;
  }

 private:
  std::vector<u64> words_;
  u64 count_;
  size_t begin_ = 0, end_;
};

struct Footprint {
  u32 first = 0, count = 0;                      // its atoms
  std::vector<std::pair<u32, u32>> residents;    // by actor
};

class Footprints {
 public:
  std::vector<Atom> atoms;
  std::vector<i32> reads;

  Footprint &at(i64 number) {
    u32 place = places_.find(number);
    if (place == NONE) throw BadProgram();
    return prints_[place];
  }

  void clear() {
    places_.clear();
    prints_.clear();
    atoms.clear();
    reads.clear();
  }

  // A new footprint of pieces (space, lo, hi, number, write); spaces are given their places by `place`.
  template <class PlaceOf>
  void define(i64 number, const i64 *flat, const i64 *end, PlaceOf place) {
    u32 at = places_.place(number);
    if (at < prints_.size()) throw BadProgram();  // nobody defines one twice
    prints_.emplace_back();
    pieces_.clear();
    for (; flat < end; flat += 5) pieces_.push_back(piece(flat, place));
    std::stable_sort(pieces_.begin(), pieces_.end(), [](const Piece &a, const Piece &b) {
      return std::tie(a.number_of_space, a.lo) < std::tie(b.number_of_space, b.lo);
    });
    prints_[at].first = narrow(atoms.size());
    cut();
    prints_[at].count = narrow(atoms.size()) - prints_[at].first;
  }

 private:
  using Accesses = std::vector<std::pair<i32, bool>>;  // (number, whether it writes)
  struct Piece {
    i64 number_of_space, lo, hi;
    u32 space;
    i32 number;
    bool write;
  };

  template <class PlaceOf>
  static Piece piece(const i64 *flat, PlaceOf place) {
    if (flat[1] >= flat[2] || flat[3] < 0 || flat[3] > std::numeric_limits<i32>::max()) throw BadProgram();
    return {flat[0], flat[1], flat[2], place(flat[0]), static_cast<i32>(flat[3]), flat[4] != 0};
  }

  // Pieces that overlap in a chain are swept together.
  void cut() {
    for (size_t start = 0, end; start < pieces_.size(); start = end) {
      i64 reach = pieces_[start].hi;
      for (end = start + 1; end < pieces_.size() && pieces_[end].space == pieces_[start].space && pieces_[end].lo < reach; end++)
        reach = std::max(reach, pieces_[end].hi);
      if (end - start > 1) {
        sweep(start, end);
        continue;
      }
      accesses_.assign(1, {pieces_[start].number, pieces_[start].write});
      add(pieces_[start].space, pieces_[start].lo, pieces_[start].hi);
    }
  }

  void sweep(size_t start, size_t end) {
    edges_.clear();
    for (size_t k = start; k < end; k++) {
      edges_.push_back(pieces_[k].lo);
      edges_.push_back(pieces_[k].hi);
    }
    std::sort(edges_.begin(), edges_.end());
    edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
    active_.clear();
    size_t upcoming = start;
    for (size_t edge = 0; edge + 1 < edges_.size(); edge++) {
      i64 lo = edges_[edge];
      active_.erase(std::remove_if(active_.begin(), active_.end(), [lo](const Piece &piece) { return piece.hi <= lo; }), active_.end());
      for (; upcoming < end && pieces_[upcoming].lo <= lo; upcoming++) active_.push_back(pieces_[upcoming]);
      if (active_.empty()) continue;
      accesses_.clear();
      for (const Piece &piece : active_) accesses_.emplace_back(piece.number, piece.write);
      std::sort(accesses_.begin(), accesses_.end());
      accesses_.erase(std::unique(accesses_.begin(), accesses_.end()), accesses_.end());
      add(pieces_[start].space, lo, edges_[edge + 1]);
    }
  }

  void add(u32 space, i64 lo, i64 hi) {
    Atom atom{lo, hi, &nobody_, space};
    atom.reads_at = narrow(reads.size());
    for (auto [number, write] : accesses_) {
      if (write) {
        if (atom.first_write < 0) atom.first_write = number;
        atom.last_write = number;
        atom.last_read = -1;
      } else {
        atom.last_read = number;
        if (atom.first_write < 0) reads.push_back(number);
      }
    }
    atom.reads = narrow(reads.size()) - atom.reads_at;
    atoms.push_back(atom);
  }

  Cell nobody_{0, 0, {}, {}, NONE, NONE, 0, NONE};
  Numbers places_;
  std::vector<Footprint> prints_;
  std::vector<Piece> pieces_, active_;
  std::vector<i64> edges_;
  Accesses accesses_;
};

}  // namespace hb
