// Counts runs of tests/compiled/meters.py (`flat`) through the C interface, for sanitizers: int64s on standard input; on
// standard output after each chunk its status, and where that is 0 what was counted; then the status of its order, and
// where that is 0 the order's steps.
#include <cstdio>
#include <vector>

#include "hbtrace.h"

using Integers = std::vector<int64_t>;

static bool take(Integers &into) {
  return std::fread(into.data(), sizeof(int64_t), into.size(), stdin) == into.size();
}

// Each array lies in a block of its own size, so that no index behind it goes unseen.
struct Rows {
  std::vector<uint8_t> kinds;
  Integers splits;
  int64_t first;
};

// One chunk; false at the end of the input.
static bool chunk(hb_meter *meter, hb_order *order, const Rows &rows) {
  Integers head(6);
  if (!take(head)) return false;
  const auto sized = [&](int k) { return Integers(static_cast<size_t>(head[static_cast<size_t>(k)])); };
  Integers waits = sized(1), code = sized(2), footprints = sized(3), bounds = sized(4), pieces = sized(5);
  if (!take(waits) || !take(code) || !take(footprints) || !take(bounds) || !take(pieces)) return false;
  int64_t status = hb_meter_waits(meter, waits.data(), head[1]);
  if (status == HB_OK)
    status = hb_meter_run(meter, code.data(), head[2] / 5, footprints.data(), bounds.data(), head[3], pieces.data(), head[5],
                          head[0], rows.kinds.data(), rows.splits.data(), rows.first, static_cast<int64_t>(rows.kinds.size()));
  std::fwrite(&status, sizeof status, 1, stdout);
  if (status == HB_OK) std::fwrite(hb_meter_counted(meter), sizeof(int64_t), HB_COUNTED, stdout);
  status = hb_order_run(order, code.data(), head[2] / 5);
  std::fwrite(&status, sizeof status, 1, stdout);
  if (status == HB_OK) {
    if (head[2] >= 5) std::fwrite(hb_order_steps(order), sizeof(int64_t), static_cast<size_t>(head[2] / 5 * 3), stdout);
    const int64_t *bounds = hb_order_bounds(order), *pairs = hb_order_pairs(order);
    const int64_t last = bounds[hb_order_count(order)], least = last > 0 ? pairs[last - 1] : 1;
    if (least < 1) return false;  // a clock of nothing
  }
  return true;
}

int main() {
  Integers head(3);
  while (take(head)) {
    Integers kinds(static_cast<size_t>(head[2])), splits(static_cast<size_t>(head[2]));
    if (!take(kinds) || !take(splits)) return 1;
    const Rows rows{std::vector<uint8_t>(kinds.begin(), kinds.end()), splits, head[1]};
    hb_meter *meter = hb_meter_new();
    hb_order *order = hb_order_new();
    if (meter == nullptr || order == nullptr) return 1;
    for (int64_t k = 0; k < head[0]; k++)
      if (!chunk(meter, order, rows)) return 1;
    hb_order_free(order);
    hb_meter_free(meter);
  }
  return 0;
}
