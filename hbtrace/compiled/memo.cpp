#include "memo.hpp"

#include <algorithm>

#include "hbtrace.h"

namespace hb {

static_assert(Memo::COUNTS == HB_COUNTS, "as many as the interface says");

// --- windows

u32 InputWindows::root(i64 ident) {
  const u32 place = places_.place(ident);
  if (place >= last_read_.size()) {
    last_read_.resize(place + size_t{1}, -1);
    last_write_.resize(place + size_t{1}, -1);
    readers_.resize(place + size_t{1});
  }
  return place;
}

void InputWindows::many(u32 number, i64 row) {
  if (number >= issued_.size()) issued_.resize(number + size_t{1}, -1);
  issued_[number] = row;
}

void InputWindows::host_write(u32 root, i64 row) {
  const i64 written = last_write_[root];
  bool open = last_read_[root] > written;
  for (u32 number : readers_[root]) {
    if (open) break;
    open = issued_[number] > written;
  }
  count_ += open;
  last_write_[root] = row;
}

// What they read last is kept as if each read had been told.
void InputWindows::forget_many() {
  for (size_t root = 0; root < readers_.size(); root++) {
    for (u32 number : readers_[root]) last_read_[root] = std::max(last_read_[root], issued_[number]);
    readers_[root].clear();
  }
  issued_.clear();
}

// --- rows

Memo::Memo(const ArrowSchema &schema) {
  if (std::string_view(schema.format) != "+s") throw BadBatch();
  for (i64 k = 0; k < schema.n_children; k++) {
    columns_.emplace_back(*schema.children[k]);
    if (std::string_view(schema.children[k]->name) == "ev") ev_ = static_cast<u32>(k);
  }
  if (ev_ == NONE) throw BadBatch();
  table_.assign(1024, NONE);
}

Memo::~Memo() { release(); }

void Memo::release() {
  if (batch_.release != nullptr) batch_.release(&batch_);
  batch_ = ArrowArray{};
  rows_ = 0;
}

void Memo::event(const char *word, const i64 *columns, i64 count) {
  const u32 number = words_.number(word);
  if (number >= events_.size()) events_.resize(number + size_t{1});
  events_[number].known = true;
  for (i64 k = 0; k < count; k++) {
    if (columns[k] < 0 || static_cast<size_t>(columns[k]) >= columns_.size()) throw BadBatch();
    events_[number].columns.push_back(static_cast<u32>(columns[k]));
  }
}

void Memo::take(ArrowArray &batch, i64 first) {
  release();
  std::swap(batch_, batch);  // a released structure has no function to release it by
  if (batch_.n_children != static_cast<i64>(columns_.size()) || batch_.offset != 0) throw BadBatch();
  std::vector<bool> used(columns_.size());
  for (const Event &event : events_)
    for (u32 k : event.columns) used[k] = true;
  used[ev_] = true;
  for (size_t k = 0; k < columns_.size(); k++) {
    if (!used[k]) continue;
    columns_[k].take(*batch_.children[k], words_, true);
  }
  for (Event &event : events_) {
    event.live.clear();
    for (u32 k : event.columns)
      if (columns_[k].live()) event.live.push_back(k);
  }
  rows_ = batch_.length;
  first_ = first;
  shapes.assign(static_cast<size_t>(rows_), -1);
}

// The key of a row, if it is one that can be learnt.
bool Memo::make_key(i64 row) {
  const u32 word = columns_[ev_].word(row);
  if (word >= events_.size() || !events_[word].known) return false;
  key_.clear();
  key_.push_back(word);
  for (u32 k : events_[word].live) columns_[k].append(row, k, key_);
  u64 hash = 0x9e3779b97f4a7c15ull;
  for (u64 part : key_) {
    hash = (hash ^ part) * 0xff51afd7ed558ccdull;
    hash ^= hash >> 32;
  }
  hash_ = hash;
  return true;
}

u32 Memo::find() {
  for (u32 k = table_[hash_ & (table_.size() - 1)]; k != NONE; k = entries_[k].next) {
    Entry &entry = entries_[k];
    if (entry.hash != hash_ || entry.key_size != key_.size()) continue;
    if (std::memcmp(&keys_[entry.key_at], key_.data(), 8 * key_.size()) == 0 && holds(entry)) return k;
  }
  return NONE;
}

// Whether all that it needs is as it was.
bool Memo::holds(Entry &entry) {
  if (entry.only_while_noted && entry.notes != notes_) return false;
  if (entry.generation == generation_) return true;
  for (u32 k = 0; k < entry.needs; k++) {
    const i64 *need = &needs_[entry.needs_at + 2 * k];
    if (versions_[static_cast<size_t>(need[0])] != need[1]) return false;
  }
  entry.generation = generation_;
  return true;
}

i64 Memo::replay(i64 row, i64 end, i64 most) {
  end = std::min(end, rows_);
  for (; row < end; row++) {
    if (!make_key(row)) return row;
    const u32 found = find();
    if (found == NONE) return row;
    use(entries_[found], row);
    hits++;
    if (static_cast<i64>(code.size()) > most) return row + 1;
  }
  return row;
}

void Memo::use(const Entry &entry, i64 row) {
  const i64 at = first_ + row;
  const size_t start = code.size();
  code.resize(start + 5 * size_t{entry.steps});
  if (entry.steps > 0) std::memcpy(&code[start], &steps_[entry.steps_at], 40 * size_t{entry.steps});
  for (u32 k = 0; k < entry.steps; k++) code[start + 5 * size_t{k} + 4] = at;
  shapes[static_cast<size_t>(row)] = entry.shape;
  for (u32 k = 0; k < COUNTS; k++) counts[k] += entry.counts[k];
  if (entry.place >= 0 && versions_[static_cast<size_t>(entry.place)] != entry.version) {
    version(entry.place, entry.version);
    defined.push_back(at);
    defined.push_back(entry.name);
  }
  if (entry.many >= 0) windows.many(static_cast<u32>(entry.many), at);
  for (u32 k = 0; k < entry.reads; k++) windows.issue(roots_[entry.reads_at + k], at);
  for (u32 k = 0; k < entry.writes; k++) windows.host_write(roots_[entry.writes_at + k], at);
}

template <class T>
u32 Memo::keep(std::vector<T> &into, const T *from, size_t count) {
  const u32 at = narrow(into.size());
  into.insert(into.end(), from, from + count);
  return at;
}

void Memo::learn(i64 row, const Lesson &lesson) {
  if (row < 0 || row >= rows_ || !make_key(row)) throw BadBatch();
  if (keys_.size() + steps_.size() + needs_.size() + roots_.size() > MOST_KEPT) forget();
  Entry entry{};
  entry.hash = hash_;
  entry.key_size = narrow(key_.size());
  entry.key_at = keep(keys_, key_.data(), key_.size());
  entry.steps = narrow(static_cast<size_t>(lesson.count));
  entry.steps_at = keep(steps_, lesson.steps, 5 * static_cast<size_t>(lesson.count));
  entry.needs = narrow(static_cast<size_t>(lesson.needed));
  entry.needs_at = narrow(needs_.size());
  for (i64 k = 0; k < lesson.needed; k++) {
    const i64 place = lesson.needs[k];
    if (place < 0 || static_cast<size_t>(place) >= versions_.size()) throw BadBatch();
    needs_.push_back(place);
    needs_.push_back(versions_[static_cast<size_t>(place)]);
  }
  entry.reads = narrow(static_cast<size_t>(lesson.read));
  entry.reads_at = narrow(roots_.size());
  for (i64 k = 0; k < lesson.read; k++) roots_.push_back(windows.root(lesson.reads[k]));
  entry.writes = narrow(static_cast<size_t>(lesson.written));
  entry.writes_at = narrow(roots_.size());
  for (i64 k = 0; k < lesson.written; k++) roots_.push_back(windows.root(lesson.writes[k]));
  entry.generation = generation_;
  entry.notes = notes_;
  entry.only_while_noted = lesson.noted != 0;
  entry.many = static_cast<i32>(lesson.many);
  entry.shape = static_cast<i32>(lesson.shape);
  entry.place = lesson.place;
  entry.version = lesson.version;
  entry.name = lesson.name;
  if (entry.place >= 0 && static_cast<size_t>(entry.place) >= versions_.size()) throw BadBatch();
  std::copy(lesson.counts, lesson.counts + COUNTS, entry.counts);
  if (entries_.size() >= table_.size()) {
    table_.assign(4 * table_.size(), NONE);
    for (u32 k = 0; k < entries_.size(); k++) {
      u32 &head = table_[entries_[k].hash & (table_.size() - 1)];
      entries_[k].next = head;
      head = k;
    }
  }
  u32 &head = table_[hash_ & (table_.size() - 1)];
  drop_oldest(head);
  entry.next = head;
  head = narrow(entries_.size());
  entries_.push_back(entry);
}

// A key has a few meanings at most, each under other versions; else a search would go through all that it ever had.
void Memo::drop_oldest(u32 &head) {
  u32 met = 0, *last = nullptr;
  for (u32 *link = &head; *link != NONE; link = &entries_[*link].next) {
    const Entry &entry = entries_[*link];
    if (entry.hash != hash_) continue;
    met++;
    last = link;
  }
  if (met >= MEANINGS) *last = entries_[*last].next;
}

void Memo::version(i64 place, i64 version) {
  if (place < 0) throw BadBatch();
  const auto at = static_cast<size_t>(place);
  if (at >= versions_.size()) versions_.resize(at + 1, -1);
  if (versions_[at] == version) return;
  versions_[at] = version;
  generation_++;
}

// All that was learnt is void.
void Memo::forget() {
  entries_.clear();
  keys_.clear();
  steps_.clear();
  needs_.clear();
  roots_.clear();
  table_.assign(1024, NONE);
}

}  // namespace hb
