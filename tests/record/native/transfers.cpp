// Calls that move tensor memory or end its use, each once, on the CPU's memory and on the test device's. Prints what
// the calls that may refuse have answered. Environment: LIBS, PLUGIN.
#include <cstdio>
#include <cstdlib>

#include "calls_facts.hpp"

namespace {

Context * context;

Tensor * placed(const char * name, Buffer * buffer, size_t offset) {
    return place(ggml_new_tensor_2d(context, type_f32, 16, 4), name, buffer, offset);
}

}  // namespace

int main() {
    context = ggml_init({1 << 20, nullptr, true});
    Device * device = test_device();
    Backend * queue = ggml_backend_dev_init(device, nullptr);
    Backend * cpu = ggml_backend_dev_init(ggml_backend_dev_by_type(type_cpu), nullptr);
    Buffer * host = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), 4096);
    Buffer * remote = ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(device), 4096);
    Tensor * a = placed("a", host, 0);
    Tensor * b = placed("b", host, 1024);
    Tensor * c = placed("c", remote, 0);
    Tensor * d = placed("d", remote, 1024);
    float values[64] = {};

    ggml_backend_buffer_clear(host, 0);
    ggml_backend_tensor_memset(a, 1, 0, 64);
    ggml_backend_tensor_set_2d(a, values, 16, 8, 4, 64, 8);
    std::printf("%d ", ggml_backend_buffer_copy_tensor(a, b));  // within host memory
    std::printf("%d\n", ggml_backend_buffer_copy_tensor(a, c));  // the device has no such function
    ggml_backend_tensor_copy(a, c);  // a write of the device
    ggml_backend_tensor_copy(c, d);  // a read and a write of the device
    ggml_backend_tensor_copy_async(queue, queue, c, d);
    ggml_backend_tensor_copy_async(cpu, queue, a, c);  // refused: waits and a copy
    ggml_backend_tensor_get(d, values, 0, sizeof values);
    ggml_backend_buffer_reset(host);
    ggml_backend_tensor_set(placed("again", host, 0), values, 0, sizeof values);
    ggml_backend_buffer_free(host);
    ggml_backend_buffer_free(remote);
    ggml_backend_free(queue);
    ggml_backend_free(cpu);
}
