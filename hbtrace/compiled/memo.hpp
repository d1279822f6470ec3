// The memo of the lowering: rows that mean what they meant before become steps without Python.
//
// It knows no event and no rule. A row's key is what stands in the columns that its event's meaning depends on; what
// that key came to was learnt from Python, and holds as long as what it needs has the versions that it had then. See
// hbtrace/replay/memo.py for what may be learnt.
#pragma once
#include "arrow.hpp"

namespace hb {

// Counts host writes of a tensor that work issued since its last write reads: the twin of hbtrace/replay/windows.py.
class InputWindows {
 public:
  u32 root(i64 ident);
  void issue(u32 root, i64 row) { last_read_[root] = row; }
  // Of a template with many reads it is remembered when it was issued, not of each read.
  void many(u32 number, i64 row);
  void reads(u32 number, u32 root) { readers_[root].push_back(number); }
  void host_write(u32 root, i64 row);
  void forget_many();
  i64 count() const { return count_; }

 private:
  Numbers places_;
  std::vector<i64> last_read_, last_write_, issued_;
  std::vector<std::vector<u32>> readers_;
  i64 count_ = 0;
};

// What one row came to, as Python tells it.
struct Lesson {
  const i64 *steps;  // five integers each, the row among them
  i64 count;
  const i64 *needs;  // places of versions
  i64 needed;
  const i64 *reads;  // roots that it issues reads of, by identity
  i64 read;
  const i64 *writes;  // roots that the host writes
  i64 written;
  i64 many;      // the template of many reads, or -1
  i64 shape;     // the number of its template, or -1
  i64 noted;     // whether it holds only while nobody notes anything new
  i64 place, version, name;  // of a definition what it changes to what, and what Python calls it; -1 else
  const i64 *counts;  // COUNTS of them
};

class Memo {
 public:
  static constexpr u32 COUNTS = 7;  // HB_COUNTS

  explicit Memo(const ArrowSchema &schema);
  ~Memo();
  Memo(const Memo &) = delete;
  Memo &operator=(const Memo &) = delete;

  // An event whose rows can be learnt, and the columns that its meaning depends on.
  void event(const char *word, const i64 *columns, i64 count);

  // The next batch, which becomes ours. Throws BadBatch.
  void take(ArrowArray &batch, i64 first);

  // Do rows from `row` on, up to `end` or until there are more than `most` integers of code: the next row, of which
  // Python must say what it means.
  i64 replay(i64 row, i64 end, i64 most);

  // What `row` came to, of which `replay` knew nothing.
  void learn(i64 row, const Lesson &lesson);

  void version(i64 place, i64 version);
  void noted() { notes_++; }
  void forget();

  InputWindows windows;
  std::vector<i64> code;
  std::vector<i64> defined;  // row and name of each definition that changed something
  std::vector<i32> shapes;  // of each row of the batch its template, -1 for none
  i64 counts[COUNTS] = {};
  i64 hits = 0;

 private:
  struct Event {
    bool known = false;
    std::vector<u32> columns, live;
  };
  struct Entry {
    u64 hash;
    u32 key_at, key_size, steps_at, steps, needs_at, needs, reads_at, reads, writes_at, writes, next;
    u32 generation, notes;
    i32 many, shape;
    i64 place, version, name;
    bool only_while_noted;
    i64 counts[COUNTS];
  };

  bool make_key(i64 row);
  u32 find();
  bool holds(Entry &entry);
  void use(const Entry &entry, i64 row);
  void drop_oldest(u32 &head);
  void release();
  template <class T>
  static u32 keep(std::vector<T> &into, const T *from, size_t count);

  std::vector<Column> columns_;
  u32 ev_ = NONE;
  std::vector<Event> events_;
  Vocabulary words_;
  ArrowArray batch_{};
  i64 rows_ = 0, first_ = 0;

  Key key_;
  u64 hash_ = 0;
  std::vector<u32> table_;
  std::vector<Entry> entries_;
  std::vector<u64> keys_;
  std::vector<i64> steps_, needs_;  // needs: place, version
  std::vector<u32> roots_;
  std::vector<i64> versions_;
  u32 generation_ = 0, notes_ = 0;

  static constexpr u32 MEANINGS = 8;
  static constexpr size_t MOST_KEPT = size_t{1} << 22;  // integers
};

}  // namespace hb
