// A record batch over the Arrow C data interface (arrow.apache.org/docs/format/CDataInterface.html): read, never
// written. What a value is made of is appended to a key: equal keys, equal values.
#pragma once
#include <cstring>
#include <string_view>

#include "numbers.hpp"

extern "C" {
struct ArrowSchema {
  const char *format, *name, *metadata;
  int64_t flags, n_children;
  struct ArrowSchema **children, *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};

struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void **buffers;
  struct ArrowArray **children, *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};
}

namespace hb {

using Key = std::vector<u64>;

// Words by number, over all batches: dictionaries differ from batch to batch.
class Vocabulary {
 public:
  u32 number(std::string_view word);
  size_t size() const { return ends_.size(); }

 private:
  std::string_view word(u32 number) const;

  std::vector<char> text_;  // of all words; a string would draw in what a library for old systems cannot have
  std::vector<size_t> ends_;
  std::unordered_multimap<u64, u32> numbers_;  // by hash
};

// A column, or what it is made of.
class Column {
 public:
  explicit Column(const ArrowSchema &schema);

  // The next batch's. Words of dictionaries are looked up where `used`.
  void take(const ArrowArray &array, Vocabulary &words, bool used);

  // Whether any row of the batch has a value.
  bool live() const { return live_; }

  // The row's value behind `mark`, nothing where it has none.
  void append(i64 row, u64 mark, Key &key) const;

  // The number of the word in a dictionary column, NONE for none.
  u32 word(i64 row) const;

 private:
  enum Kind { BOOLEAN, INTEGER, TEXT, WORD, LIST, STRUCT };

  bool there(i64 at) const { return valid_ == nullptr || (valid_[at >> 3] >> (at & 7) & 1); }
  void append_text(i64 at, Key &key) const;
  void append_list(i64 at, Key &key) const;
  void append_struct(i64 at, Key &key) const;
  void look_up(const ArrowArray &dictionary, Vocabulary &words);

  Kind kind_;
  std::vector<Column> children_;
  bool live_ = false;
  i64 offset_ = 0, length_ = 0, octets_ = 0;
  const uint8_t *valid_ = nullptr;
  const void *data_ = nullptr;
  const char *text_ = nullptr;
  std::vector<u32> words_, live_children_;
};

}  // namespace hb
