// Replays scripts of tests/compiled/programs.py (`flat`) through the C interface, for sanitizers: int64s on standard
// input; on standard output after each chunk its status, and where that is 0 the hits, the counts and what is remembered.
#include <cstdio>
#include <vector>

#include "hbtrace.h"

using Integers = std::vector<int64_t>;

static bool take(Integers &into) {
  return std::fread(into.data(), sizeof(int64_t), into.size(), stdin) == into.size();
}

static void show(const int64_t *integers, int64_t count) {
  std::fwrite(&count, sizeof count, 1, stdout);
  if (count > 0) std::fwrite(integers, sizeof(int64_t), static_cast<size_t>(count), stdout);
}

// One chunk; false at the end of the input.
static bool chunk(hb_kernel *kernel) {
  Integers head(6);
  if (!take(head)) return false;
  Integers code(static_cast<size_t>(head[2])), footprints(static_cast<size_t>(head[3]));
  Integers bounds(static_cast<size_t>(head[4])), pieces(static_cast<size_t>(head[5]));
  if (!take(code) || !take(footprints) || !take(bounds) || !take(pieces)) return false;
  int64_t status = hb_kernel_run(kernel, code.data(), head[2] / 5, footprints.data(), bounds.data(), head[3], pieces.data(),
                                 head[5], head[0], int64_t{1} << 62, int64_t{1} << 62);
  if (status == HB_OK && head[1]) status = hb_kernel_remember(kernel);
  std::fwrite(&status, sizeof status, 1, stdout);
  if (status != HB_OK) return true;
  show(hb_kernel_hits(kernel), hb_kernel_hit_count(kernel) * HB_HIT);
  const int64_t counts[] = {hb_kernel_visited(kernel), hb_kernel_cells(kernel), hb_kernel_known(kernel)};
  show(counts, 3);
  show(hb_kernel_rows(kernel), head[1] ? hb_kernel_row_count(kernel) : 0);
  return true;
}

int main() {
  Integers head(2);
  while (take(head)) {
    hb_kernel *kernel = hb_kernel_new(static_cast<int32_t>(head[0]));
    if (kernel == nullptr) return 1;
    for (int64_t k = 0; k < head[1]; k++)
      if (!chunk(kernel)) return 1;
    hb_kernel_free(kernel);
  }
  return 0;
}
