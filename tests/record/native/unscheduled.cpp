// A program without a scheduler, whose backends are made by their own function, as `ggml_backend_cuda_init` does. Copies
// between two queues; then three times writes the input of a graph through its pointer and computes, without a wait; and
// once more with the input as it is. Environment: LIBS, PLUGIN.
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "calls_facts.hpp"

namespace {

Context * context;

Tensor * placed(const char * name, Buffer * buffer, size_t offset) {
    return place(ggml_new_tensor_1d(context, type_f32, 64), name, buffer, offset);
}

}  // namespace

int main() {
    context = ggml_init({1 << 20, nullptr, true});
    Device * device = test_device();
    Backend * first = device->table.init(device, nullptr);
    Backend * second = device->table.init(device, nullptr);
    Buffer * remote = ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(device), 4096);
    Buffer * host = ggml_backend_buft_alloc_buffer(ggml_backend_dev_host_buffer_type(device), 4096);
    Tensor * from = placed("from", remote, 0);
    Tensor * to = placed("to", remote, 1024);
    Tensor * sum = placed("sum", remote, 2048);
    Tensor * input = placed("input", host, 0);
    ggml_set_input(input);
    Graph * graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, ggml_add_inplace(context, sum, input));

    ggml_backend_tensor_copy_async(first, second, from, to);
    ggml_backend_synchronize(second);
    for (int value : {1, 2, 3}) {
        std::memset(input->data, value, 256);
        ggml_backend_graph_compute_async(first, graph);
    }
    ggml_backend_graph_compute_async(first, graph);
    ggml_backend_synchronize(first);
    ggml_backend_free(first);
    ggml_backend_free(second);
    ggml_backend_buffer_free(host);
    ggml_backend_buffer_free(remote);
}
