#include "arrow.hpp"

#include <algorithm>

namespace hb {

u32 Vocabulary::number(std::string_view word) {
  u64 hash = word.size();
  for (char letter : word) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ull;
  const auto found = numbers_.equal_range(hash);
  for (auto at = found.first; at != found.second; ++at)
    if (this->word(at->second) == word) return at->second;
  const u32 number = narrow(ends_.size());
  text_.insert(text_.end(), word.begin(), word.end());
  ends_.push_back(text_.size());
  numbers_.emplace(hash, number);
  return number;
}

std::string_view Vocabulary::word(u32 number) const {
  const size_t from = number == 0 ? 0 : ends_[number - size_t{1}];
  return {text_.data() + from, ends_[number] - from};
}

Column::Column(const ArrowSchema &schema) {
  const std::string_view format = schema.format;
  if (schema.dictionary != nullptr) {
    if (format != "i" || std::string_view(schema.dictionary->format) != "u") throw BadBatch();
    kind_ = WORD;
  } else if (format == "b") {
    kind_ = BOOLEAN;
  } else if (format == "l") {
    kind_ = INTEGER;
  } else if (format == "u") {
    kind_ = TEXT;
  } else if (format == "+l" || format == "+s") {
    kind_ = format == "+l" ? LIST : STRUCT;
    for (i64 k = 0; k < schema.n_children; k++) children_.emplace_back(*schema.children[k]);
    if (kind_ == LIST && children_.size() != 1) throw BadBatch();
  } else {
    throw BadBatch();
  }
}

void Column::take(const ArrowArray &array, Vocabulary &words, bool used) {
  offset_ = array.offset;
  length_ = array.length;
  if (offset_ < 0 || length_ < 0 || array.n_children != static_cast<i64>(children_.size())) throw BadBatch();
  valid_ = array.n_buffers > 0 ? static_cast<const uint8_t *>(array.buffers[0]) : nullptr;
  data_ = array.n_buffers > 1 ? array.buffers[1] : nullptr;
  text_ = kind_ == TEXT && array.n_buffers > 2 ? static_cast<const char *>(array.buffers[2]) : nullptr;
  live_ = length_ > 0 && array.null_count != length_;
  if (live_ && valid_ != nullptr && array.null_count < 0) {
    live_ = false;
    for (i64 at = offset_; at < offset_ + length_ && !live_; at++) live_ = there(at);
  }
  if (live_ && kind_ != STRUCT && data_ == nullptr) throw BadBatch();
  if (live_ && kind_ == WORD && used) {
    if (array.dictionary == nullptr) throw BadBatch();
    look_up(*array.dictionary, words);
  }
  live_children_.clear();
  for (size_t k = 0; live_ && k < children_.size(); k++) {
    children_[k].take(*array.children[k], words, used);
    if (children_[k].live()) live_children_.push_back(static_cast<u32>(k));
  }
}

void Column::look_up(const ArrowArray &dictionary, Vocabulary &words) {
  words_.assign(static_cast<size_t>(dictionary.length), NONE);
  if (dictionary.length == 0) return;
  const auto *valid = static_cast<const uint8_t *>(dictionary.buffers[0]);
  const auto *ends = static_cast<const i32 *>(dictionary.buffers[1]) + dictionary.offset;
  const auto *text = static_cast<const char *>(dictionary.buffers[2]);
  for (i64 k = 0; k < dictionary.length; k++) {
    const i64 at = dictionary.offset + k;
    if (valid != nullptr && !(valid[at >> 3] >> (at & 7) & 1)) continue;
    if (ends[k] < 0 || ends[k + 1] < ends[k]) throw BadBatch();
    const auto length = static_cast<size_t>(ends[k + 1] - ends[k]);
    words_[static_cast<size_t>(k)] = words.number(length > 0 ? std::string_view(text + ends[k], length) : std::string_view());
  }
}

u32 Column::word(i64 row) const {
  const i64 at = offset_ + row;
  if (!live_ || row < 0 || row >= length_ || !there(at)) return NONE;
  const i32 index = static_cast<const i32 *>(data_)[at];
  if (index < 0 || static_cast<size_t>(index) >= words_.size()) throw BadBatch();
  return words_[static_cast<size_t>(index)];
}

void Column::append(i64 row, u64 mark, Key &key) const {
  const i64 at = offset_ + row;
  if (row < 0 || row >= length_) throw BadBatch();
  if (!there(at)) return;
  switch (kind_) {
    case INTEGER:
      key.push_back(mark);
      key.push_back(static_cast<u64>(static_cast<const i64 *>(data_)[at]));
      break;
    case BOOLEAN:
      key.push_back(mark << 1 | (static_cast<const uint8_t *>(data_)[at >> 3] >> (at & 7) & 1));
      break;
    case WORD: {
      const u32 number = word(row);
      if (number == NONE) break;
      key.push_back(mark);
      key.push_back(number);
      break;
    }
    case TEXT:
      key.push_back(mark);
      append_text(at, key);
      break;
    case LIST:
      key.push_back(mark);
      append_list(at, key);
      break;
    case STRUCT:
      key.push_back(mark);
      append_struct(at, key);
      break;
  }
}

void Column::append_text(i64 at, Key &key) const {
  const auto *ends = static_cast<const i32 *>(data_);
  if (ends[at] < 0 || ends[at + 1] < ends[at]) throw BadBatch();
  const auto length = static_cast<size_t>(ends[at + 1] - ends[at]);
  key.push_back(length);
  for (size_t k = 0; k < length; k += 8) {
    u64 some = 0;
    std::memcpy(&some, text_ + ends[at] + k, std::min<size_t>(8, length - k));
    key.push_back(some);
  }
}

void Column::append_list(i64 at, Key &key) const {
  const auto *ends = static_cast<const i32 *>(data_);
  const i64 from = ends[at], to = ends[at + 1];
  if (from < 0 || to < from || (to > from && to > children_[0].length_)) throw BadBatch();
  key.push_back(static_cast<u64>(to - from));
  if (!children_[0].live()) return;
  for (i64 k = from; k < to; k++) children_[0].append(k, static_cast<u64>(k - from), key);
}

// Which of its fields have a value, and those.
void Column::append_struct(i64 at, Key &key) const {
  const size_t start = key.size();
  key.push_back(0);
  for (u32 k : live_children_) {
    const size_t before = key.size();
    children_[k].append(at, k, key);
    if (key.size() > before) key[start] |= u64{1} << (k & 63);
  }
}

}  // namespace hb
