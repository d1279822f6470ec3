// Host writes that no call announces: through `tensor->data` of an input. Found by comparing the contents of the
// inputs in host buffers at the end of the program's preparation with what they were. The lock is held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ggml_names.hpp"

namespace hbt {

struct Scheduler;

struct Input {
    const ggml_tensor * tensor;  // a root
    char * data;                 // null: not in a host buffer
    size_t size;
    bool host;
    bool clobbered;              // the graph reuses its memory: what it held says nothing
    uint64_t before;             // contents when the bracket began, if clobbered
};

struct Inputs {
    std::vector<Input> list;
    int64_t tokens = -1;  // by the lookup of their embeddings, where names do not tell
    bool open = false;   // the bracket is open
    int asserted = 0;    // host-buffer assertions in the bracket
    int direct = 0;      // direct writes in it that the program announced, each behind such an assertion
};

// Before and after the scheduler allocates a graph: which inputs it has, then where they lie.
void find_inputs(Inputs & inputs, ggml_cgraph * graph);
void place_inputs(Inputs & inputs, ggml_cgraph * graph);

void begin_inputs(Scheduler & scheduler);
void end_inputs(Scheduler & scheduler, const void * caller);
// A graph is about to be computed that no scheduler has: these are the inputs that it reads.
void look_at_inputs(ggml_cgraph * graph, const std::vector<const ggml_tensor *> & roots, const void * caller);
// A call wrote these bytes: they are no news.
void announced(const ggml_tensor * tensor, size_t offset, size_t size);
void host_asserted();
void host_announced();
void forget_contents(const char * base, size_t size);

}  // namespace hbt
