// The C interface: nothing but the way from C to C++, and from an exception to a status.
#include "guarded.hpp"
#include "kernel.hpp"
#include "meter.hpp"
#include "order.hpp"

using hb::guarded;

#ifndef HB_STAMP
#error "compile.py says what the sources are"
#endif

struct hb_kernel {
  hb::Kernel kernel;
  int32_t status = HB_OK;
  explicit hb_kernel(bool closed) : kernel(closed) {}
};

struct hb_meter {
  hb::Meter meter;
  int32_t status = HB_OK;
};

struct hb_order {
  hb::Order order;
  int32_t status = HB_OK;
};

int32_t hb_interface(void) { return HB_INTERFACE; }
const char *hb_stamp(void) { return HB_STAMP; }

hb_kernel *hb_kernel_new(int32_t closed) {
  try {
    return new hb_kernel(closed != 0);
  } catch (...) {
    return nullptr;
  }
}

void hb_kernel_free(hb_kernel *kernel) { delete kernel; }

int32_t hb_kernel_run(hb_kernel *kernel, const int64_t *code, int64_t steps, const int64_t *footprints, const int64_t *bounds,
                      int64_t count, const int64_t *pieces, int64_t integers, int64_t forget, int64_t visits, int64_t races) {
  const hb::Program program{code, steps, footprints, bounds, count, pieces, integers, forget != 0};
  const auto bound = [](int64_t most) { return most < 0 ? 0 : static_cast<hb::u64>(most); };
  return guarded(kernel->status, [&] { kernel->kernel.run(program, bound(visits), bound(races)); });
}

int64_t hb_kernel_hit_count(const hb_kernel *kernel) { return static_cast<int64_t>(kernel->kernel.hits.size() / HB_HIT); }
const int64_t *hb_kernel_hits(const hb_kernel *kernel) { return kernel->kernel.hits.data(); }

int32_t hb_kernel_remember(hb_kernel *kernel) {
  return guarded(kernel->status, [&] { kernel->kernel.remember(); });
}

int64_t hb_kernel_row_count(const hb_kernel *kernel) { return static_cast<int64_t>(kernel->kernel.rows.size()); }
const int64_t *hb_kernel_rows(const hb_kernel *kernel) { return kernel->kernel.rows.data(); }

int64_t hb_kernel_visited(const hb_kernel *kernel) { return static_cast<int64_t>(kernel->kernel.visited()); }
int64_t hb_kernel_cells(const hb_kernel *kernel) { return static_cast<int64_t>(kernel->kernel.cells()); }
int64_t hb_kernel_known(const hb_kernel *kernel) { return static_cast<int64_t>(kernel->kernel.known()); }

hb_meter *hb_meter_new(void) {
  try {
    return new hb_meter;
  } catch (...) {
    return nullptr;
  }
}

void hb_meter_free(hb_meter *meter) { delete meter; }

int32_t hb_meter_waits(hb_meter *meter, const int64_t *actors, int64_t count) {
  return guarded(meter->status, [&] { std::for_each(actors, actors + count, [&](int64_t actor) { meter->meter.waits(actor); }); });
}

int32_t hb_meter_run(hb_meter *meter, const int64_t *code, int64_t steps, const int64_t *footprints, const int64_t *bounds,
                     int64_t count, const int64_t *pieces, int64_t integers, int64_t forget, const uint8_t *kinds,
                     const int64_t *splits, int64_t first, int64_t rows) {
  const hb::Program program{code, steps, footprints, bounds, count, pieces, integers, forget != 0};
  return guarded(meter->status, [&] { meter->meter.run(program, {kinds, splits, first, rows}); });
}

const int64_t *hb_meter_counted(hb_meter *meter) { return meter->meter.counted(); }

hb_order *hb_order_new(void) {
  try {
    return new hb_order;
  } catch (...) {
    return nullptr;
  }
}

void hb_order_free(hb_order *order) { delete order; }

int32_t hb_order_run(hb_order *order, const int64_t *code, int64_t steps) {
  return guarded(order->status, [&] { order->order.run(code, steps); });
}

const int64_t *hb_order_steps(const hb_order *order) { return order->order.steps.data(); }
int64_t hb_order_count(const hb_order *order) { return order->order.count(); }
const int64_t *hb_order_bounds(const hb_order *order) { return order->order.bounds.data(); }
const int64_t *hb_order_pairs(const hb_order *order) { return order->order.pairs.data(); }
