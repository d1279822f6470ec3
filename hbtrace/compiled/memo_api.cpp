// The C interface of the memo.
#include "guarded.hpp"
#include "memo.hpp"

using hb::guarded;

struct hb_memo {
  hb::Memo memo;
  int32_t status = HB_OK;
  explicit hb_memo(const ArrowSchema &schema) : memo(schema) {}
};

hb_memo *hb_memo_new(const struct ArrowSchema *schema) {
  try {
    return new hb_memo(*schema);
  } catch (...) {
    return nullptr;
  }
}

void hb_memo_free(hb_memo *memo) { delete memo; }

int32_t hb_memo_event(hb_memo *memo, const char *word, const int64_t *columns, int64_t count) {
  return guarded(memo->status, [&] { memo->memo.event(word, columns, count); });
}

int32_t hb_memo_take(hb_memo *memo, struct ArrowArray *batch, int64_t first) {
  return guarded(memo->status, [&] { memo->memo.take(*batch, first); });
}

int64_t hb_memo_replay(hb_memo *memo, int64_t row, int64_t end, int64_t most) {
  int64_t next = -1;
  return guarded(memo->status, [&] { next = memo->memo.replay(row, end, most); }) == HB_OK ? next : -1;
}

int64_t hb_memo_code_size(const hb_memo *memo) { return static_cast<int64_t>(memo->memo.code.size()); }
const int64_t *hb_memo_code(const hb_memo *memo) { return memo->memo.code.data(); }
void hb_memo_code_taken(hb_memo *memo) { memo->memo.code.clear(); }

int64_t hb_memo_shape(const hb_memo *memo, int64_t row) {
  const auto &shapes = memo->memo.shapes;
  return row >= 0 && static_cast<size_t>(row) < shapes.size() ? shapes[static_cast<size_t>(row)] : -1;
}

int32_t hb_memo_learn(hb_memo *memo, int64_t row, const int64_t *lesson, int64_t integers) {
  return guarded(memo->status, [&] {
    const int64_t head = HB_LESSON + HB_COUNTS;
    if (integers < head) throw hb::BadBatch();
    const int64_t *at = lesson + head;
    int64_t left = integers - head;
    const auto some = [&](int64_t count) {
      if (count < 0 || count > left) throw hb::BadBatch();
      const int64_t *from = at;
      at += count;
      left -= count;
      return from;
    };
    if (lesson[0] > left / 5) throw hb::BadBatch();
    const int64_t *steps = some(5 * lesson[0]), *needs = some(lesson[1]), *reads = some(lesson[2]), *writes = some(lesson[3]);
    memo->memo.learn(row, {steps, lesson[0], needs, lesson[1], reads, lesson[2], writes, lesson[3], lesson[4], lesson[5], lesson[6],
                           lesson[7], lesson[8], lesson[9], lesson + HB_LESSON});
  });
}

int32_t hb_memo_version(hb_memo *memo, int64_t place, int64_t version) {
  return guarded(memo->status, [&] { memo->memo.version(place, version); });
}

void hb_memo_noted(hb_memo *memo) { memo->memo.noted(); }
void hb_memo_forget(hb_memo *memo) { memo->memo.forget(); }

int64_t hb_memo_defined_size(const hb_memo *memo) { return static_cast<int64_t>(memo->memo.defined.size()); }
const int64_t *hb_memo_defined(const hb_memo *memo) { return memo->memo.defined.data(); }
void hb_memo_defined_taken(hb_memo *memo) { memo->memo.defined.clear(); }

const int64_t *hb_memo_counts(const hb_memo *memo) { return memo->memo.counts; }
void hb_memo_counts_taken(hb_memo *memo) { std::fill(std::begin(memo->memo.counts), std::end(memo->memo.counts), 0); }
int64_t hb_memo_hits(const hb_memo *memo) { return memo->memo.hits; }

int32_t hb_memo_issue(hb_memo *memo, int64_t many, const int64_t *roots, int64_t count, int64_t row) {
  return guarded(memo->status, [&] {
    hb::InputWindows &windows = memo->memo.windows;
    if (many >= 0) windows.many(hb::narrow(static_cast<size_t>(many)), row);
    for (int64_t k = 0; k < count; k++) windows.issue(windows.root(roots[k]), row);
  });
}

int32_t hb_memo_many(hb_memo *memo, int64_t many, const int64_t *roots, int64_t count) {
  return guarded(memo->status, [&] {
    hb::InputWindows &windows = memo->memo.windows;
    const hb::u32 number = hb::narrow(static_cast<size_t>(many));
    for (int64_t k = 0; k < count; k++) windows.reads(number, windows.root(roots[k]));
    windows.many(number, -1);
  });
}

int32_t hb_memo_host_write(hb_memo *memo, int64_t root, int64_t row) {
  return guarded(memo->status, [&] { memo->memo.windows.host_write(memo->memo.windows.root(root), row); });
}

void hb_memo_forget_many(hb_memo *memo) { memo->memo.windows.forget_many(); }
int64_t hb_memo_windows(const hb_memo *memo) { return memo->memo.windows.count(); }
