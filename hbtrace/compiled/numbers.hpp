// Numbers given out by somebody else, as places in our own arrays: no number is too large, and no index unchecked.
#pragma once
#include <cstddef>
#include <cstdint>
#include <new>
#include <unordered_map>
#include <vector>

namespace hb {

using i32 = int32_t;
using i64 = int64_t;
using u32 = uint32_t;
using u64 = uint64_t;

constexpr u32 NONE = 0xffffffff;

// What no program has: thrown inside, a status outside.
struct BadProgram {};

// What no batch of the canonical schema has, or an index out of its array: nobody is to trust this batch.
struct BadBatch {};

#ifndef HB_LIMIT
#define HB_LIMIT NONE  // tests bring it down
#endif

// A size as an index of 32 bits.
inline u32 narrow(size_t size) {
  if (size >= HB_LIMIT) throw std::bad_alloc();
  return static_cast<u32>(size);
}

// Numbers that count up from 0, as the lowering's do, are found by one load; any others by hash.
class Numbers {
 public:
  // The place of a number, NONE where it has none.
  u32 find(i64 number) const {
    if (static_cast<u64>(number) < near_.size()) {
      u32 found = near_[static_cast<size_t>(number)];
      if (found != NONE) return found;
    }
    if (far_.empty()) return NONE;
    auto found = far_.find(number);
    return found == far_.end() ? NONE : found->second;
  }

  // The place of a number; one given back before, or the next, where it has none.
  u32 place(i64 number) {
    u32 found = find(number);
    if (found != NONE) return found;
    found = free_.empty() ? next_++ : free_.back();
    if (found >= HB_LIMIT) throw std::bad_alloc();
    if (!free_.empty()) free_.pop_back();
    if (static_cast<u64>(number) < 1024 + 2 * live_) {
      if (static_cast<u64>(number) >= near_.size()) near_.resize(static_cast<size_t>(number) + 1, NONE);
      near_[static_cast<size_t>(number)] = found;
    } else {
      far_.emplace(number, found);
    }
    live_++;
    return found;
  }

  // Forget a number; its place may be given to another.
  void erase(i64 number) {
    u32 found = find(number);
    if (found == NONE) return;
    if (far_.erase(number) == 0) near_[static_cast<size_t>(number)] = NONE;
    free_.push_back(found);
    live_--;
  }

  void clear() { *this = Numbers(); }

  // Places given out so far are below this.
  u32 size() const { return next_; }

 private:
  std::vector<u32> near_, free_;
  std::unordered_map<i64, u32> far_;
  u32 next_ = 0;
  u64 live_ = 0;
};

}  // namespace hb
