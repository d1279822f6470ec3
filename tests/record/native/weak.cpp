// Calls newer functions only where its ggml has them, and knows by their addresses. Prints which it has called, and what
// two copies of every other word are then. Environment: LIBS.
#include <cstdio>
#include <cstdlib>

#include "calls_facts.hpp"

#define WEAK __attribute__((weak))
extern "C" {
WEAK void ggml_backend_tensor_set_direct(Tensor *, size_t, size_t);
WEAK void ggml_backend_sched_prepare_inputs(Scheduler *);
WEAK void ggml_backend_tensor_set_2d(Tensor *, const void *, size_t, size_t, size_t, size_t, size_t);
WEAK void ggml_backend_tensor_get_2d(const Tensor *, void *, size_t, size_t, size_t, size_t, size_t);
WEAK void ggml_backend_tensor_set_2d_async(Backend *, Tensor *, const void *, size_t, size_t, size_t, size_t, size_t);
WEAK void ggml_backend_tensor_get_2d_async(
    Backend *, const Tensor *, void *, size_t, size_t, size_t, size_t, size_t
);
}

int main() {
    ggml_backend_load_all_from_path(std::getenv("LIBS"));
    Context * context = ggml_init({1 << 20, nullptr, true});
    Backend * cpu = ggml_backend_dev_init(ggml_backend_dev_by_type(type_cpu), nullptr);
    Buffer * buffer = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), 4096);
    Tensor * tensor = ggml_set_name(ggml_new_tensor_1d(context, type_f32, 16), "t");
    ggml_backend_tensor_alloc(buffer, tensor, ggml_backend_buffer_get_base(buffer));
    ggml_backend_buffer_clear(buffer, 0);
    float given[4] = {1, 2, 3, 4}, taken[4] = {};
    if (ggml_backend_tensor_set_direct) ggml_backend_tensor_set_direct(tensor, 0, 4), std::printf("direct ");
    if (ggml_backend_sched_prepare_inputs) ggml_backend_sched_prepare_inputs(nullptr), std::printf("prepare ");
    if (ggml_backend_tensor_set_2d) ggml_backend_tensor_set_2d(tensor, given, 0, 4, 2, 8, 8);
    if (ggml_backend_tensor_get_2d) ggml_backend_tensor_get_2d(tensor, taken, 0, 4, 2, 8, 4);
    std::printf("%g %g ", double(taken[0]), double(taken[1]));
    if (ggml_backend_tensor_set_2d_async) ggml_backend_tensor_set_2d_async(cpu, tensor, given + 1, 0, 4, 2, 8, 8);
    if (ggml_backend_tensor_get_2d_async) ggml_backend_tensor_get_2d_async(cpu, tensor, taken, 0, 4, 2, 8, 4);
    std::printf("%g %g\n", double(taken[0]), double(taken[1]));
    ggml_backend_free(cpu);
    ggml_backend_buffer_free(buffer);
}
