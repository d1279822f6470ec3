// Two threads, each with a scheduler of its own, that set their inputs at the same time and compute afterwards, three
// times. Each adds its input, 1, 2 and 4 times its own number, to a sum on the device; prints the sums, 7 and 14.
// Environment: LIBS, PLUGIN.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "fork_stub.hpp"
#include "queue.hpp"

namespace {

Device * device;

struct Side;

struct Ubatch : llama_ubatch {
    Side * side;
    Ubatch(float number, Side * of) : llama_ubatch{number}, side(of) {}
};

struct Side {
    Context * context = ggml_init({1 << 20, nullptr, true});
    Backend * queues[2] = {
        ggml_backend_dev_init(device, nullptr),
        ggml_backend_dev_init(ggml_backend_dev_by_type(type_cpu), nullptr),
    };
    Scheduler * scheduler = ggml_backend_sched_new(queues, nullptr, 2, 64, false, false);
    Tensor * input = placed(context, "input", ggml_backend_dev_host_buffer_type(device));
    Tensor * sum = placed(context, "sum", ggml_backend_dev_buffer_type(device));
    Graph * graph = ggml_new_graph(context);
    llm_graph_result result;
    Side * next = nullptr;  // begins to set its input while this one does
    float value = 0;
    Queue thread;

    void allocate() {
        ggml_set_input(input);
        ggml_backend_tensor_memset(sum, 0, 0, ggml_nbytes(sum));
        ggml_build_forward_expand(graph, ggml_add_inplace(context, sum, input));
        if (!ggml_backend_sched_alloc_graph(scheduler, graph)) std::abort();
    }
    void set() {
        Ubatch ubatch(value, this);
        result.set_inputs(&ubatch);
    }
    void compute() {
        ggml_backend_sched_graph_compute_async(scheduler, graph);
        ggml_backend_sched_synchronize(scheduler);
    }
    float total() {
        float first = 0;
        ggml_backend_tensor_get(sum, &first, 0, sizeof first);
        return first;
    }
};

}  // namespace

__attribute__((visibility("default"))) void fork_write(const llama_ubatch * ubatch) {
    Side & side = *static_cast<const Ubatch *>(ubatch)->side;
    auto * data = static_cast<float *>(side.input->data);
    for (int i = 0; i < 8; i++) data[i] = ubatch->value;
    if (side.next != nullptr) {
        side.next->thread.push([&] { side.next->set(); });
        usleep(20000);
    }
    for (int i = 8; i < 16; i++) data[i] = ubatch->value;
}

int main() {
    device = test_device();
    Side sides[2];
    sides[0].next = &sides[1];
    auto run = [](Side & side, void (Side::*step)()) {
        side.thread.push([&side, step] { (side.*step)(); });
        side.thread.drain();
    };
    for (Side & side : sides) run(side, &Side::allocate);
    for (float value : {1.0f, 2.0f, 4.0f}) {
        sides[0].value = value, sides[1].value = 2 * value;
        run(sides[0], &Side::set);
        for (Side & side : sides) run(side, &Side::compute);
    }
    std::printf("%g %g\n", double(sides[0].total()), double(sides[1].total()));
}
