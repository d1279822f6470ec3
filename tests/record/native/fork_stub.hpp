// The stub of a fork, and what it calls back.
#pragma once

#include "calls_facts.hpp"

struct llama_ubatch {
    float value;
};

extern "C" {
void fork_ring(Tensor *);  // whose places are the slots, one behind the other
int fork_announced();      // how many writes
void ggml_backend_sched_prepare_inputs(Scheduler *);
void ggml_backend_tensor_set_direct(Tensor *, size_t, size_t);
void fork_write(const llama_ubatch *);  // the program's
}

struct llm_graph_result {
    void set_inputs(const llama_ubatch *);
};
