// A program written for the fork: three ubatches of one graph, which adds its input to a sum on the device. Allocates
// once, then prepares, writes the input through its pointer, announces that, and computes. Prints the sum, which is 7.
// With FORK_CHILD a child of its own also sets the input, right behind the allocation.
// Environment: LIBS, PLUGIN, FORK_CHILD, and the stub's.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include "fork_stub.hpp"

namespace {

Tensor * input;

}  // namespace

__attribute__((visibility("default"))) void fork_write(const llama_ubatch * ubatch) {
    if (!ggml_backend_buffer_is_host(input->buffer)) std::abort();
    ggml_backend_tensor_set_direct(input, 0, ggml_nbytes(input));
    for (int i = 0; i < 16; i++) static_cast<float *>(input->data)[i] = ubatch->value;
}

int main() {
    Context * context = ggml_init({1 << 20, nullptr, true});
    Device * device = test_device();
    Backend * queues[] = {
        ggml_backend_dev_init(device, nullptr),
        ggml_backend_dev_init(ggml_backend_dev_by_type(type_cpu), nullptr),
    };
    Scheduler * scheduler = ggml_backend_sched_new(queues, nullptr, 2, 64, false, false);
    input = placed(context, "input", ggml_backend_dev_host_buffer_type(device));
    ggml_set_input(input);
    fork_ring(input);
    Tensor * sum = placed(context, "sum", ggml_backend_dev_buffer_type(device));
    ggml_backend_tensor_memset(sum, 0, 0, ggml_nbytes(sum));
    Graph * graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, ggml_set_name(ggml_add_inplace(context, sum, input), "added"));

    llm_graph_result result;
    if (!ggml_backend_sched_alloc_graph(scheduler, graph)) return 1;
    if (std::getenv("FORK_CHILD") != nullptr) {
        if (pid_t child = fork(); child != 0) {
            waitpid(child, nullptr, 0);
        } else {
            llama_ubatch ubatch{1};
            result.set_inputs(&ubatch);
            _exit(0);
        }
    }
    for (float value : {1.0f, 2.0f, 4.0f}) {
        ggml_backend_sched_prepare_inputs(scheduler);
        llama_ubatch ubatch{value};
        result.set_inputs(&ubatch);
        ggml_backend_sched_graph_compute_async(scheduler, graph);
    }
    ggml_backend_sched_synchronize(scheduler);
    float total = 0;
    ggml_backend_tensor_get(sum, &total, 0, sizeof total);
    std::printf("%g %d\n", double(total), fork_announced());
    ggml_backend_sched_free(scheduler);
    for (Backend * queue : queues) ggml_backend_free(queue);
}
