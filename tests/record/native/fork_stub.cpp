// What a fork of llama.cpp has and the registry's build has not: a call that moves a graph's inputs to another slot
// without allocating, and one that announces a write through `tensor->data`. Beside it the function that a program
// sets its inputs in, as llama.cpp names it. Environment: FORK_SLOTS, FORK_WAITS.
#include <cstdlib>

#include "calls_facts.hpp"
#include "fork_stub.hpp"

namespace {

Tensor * input;
char * base;
int calls = 0, announced = 0;

}  // namespace

void fork_ring(Tensor * tensor) {
    input = tensor;
    base = static_cast<char *>(tensor->data);
}

int fork_announced() { return announced; }

void ggml_backend_sched_prepare_inputs(Scheduler * scheduler) {
    const char * slots = std::getenv("FORK_SLOTS");
    int slot = calls++ % (slots == nullptr ? 1 : std::atoi(slots));
    if (calls == 1) return;  // right behind an allocation
    if (std::getenv("FORK_WAITS") != nullptr) ggml_backend_sched_synchronize(scheduler);
    input->data = base + 256 * slot;
}

void ggml_backend_tensor_set_direct(Tensor *, size_t, size_t) { announced++; }

void llm_graph_result::set_inputs(const llama_ubatch * ubatch) { fork_write(ubatch); }
