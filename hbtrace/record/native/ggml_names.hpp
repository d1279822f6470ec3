// The names of ggml's own types, opaque: nothing here knows what is inside them. Offsets come from the probe.
#pragma once

#include <cstddef>
#include <cstdint>

struct ggml_backend;
struct ggml_backend_buffer;
struct ggml_backend_buffer_type;
struct ggml_backend_device;
struct ggml_backend_event;
struct ggml_backend_reg;
struct ggml_backend_sched;
struct ggml_cgraph;
struct ggml_context;
struct ggml_tensor;

// Passed by value in memory: the three fields have stood since ggml has this function.
struct ggml_init_params {
    size_t mem_size;
    void * mem_buffer;
    bool no_alloc;
};

#define HBT_EXPORT extern "C" __attribute__((visibility("default")))
#define HBT_CALLER __builtin_return_address(0)
