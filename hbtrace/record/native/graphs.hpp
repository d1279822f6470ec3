// Graphs, interned: one row for each that differs in what it touches. An unchanged one is recognised without a look at
// its nodes. The lock is held.
#pragma once

#include <cstdint>
#include <vector>

#include "ggml_names.hpp"

namespace hbt {

// The id of what this queue is about to compute; its row is written if it is new.
int64_t graph_of(ggml_backend * backend, ggml_cgraph * graph);
// The inputs, as roots, that a graph reads which `graph_of` has just told the id of.
std::vector<const ggml_tensor *> inputs_of(ggml_cgraph * graph);
// Something may have changed graphs that carry no number of their own (an allocation, a reset).
void graphs_may_change();

int node_count(ggml_cgraph * graph);
ggml_tensor * node_at(ggml_cgraph * graph, int index);
// The i-th source of a tensor, or null.
ggml_tensor * source_at(const ggml_tensor * tensor, int index);

}  // namespace hbt
