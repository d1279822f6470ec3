// What the programs that call ggml directly must know of it, declared from facts.
#pragma once

#include <cstdlib>

#include "ggml_facts.hpp"

struct Context;
struct Scheduler;

struct Parameters {
    size_t size;
    void * memory;
    bool no_alloc;
};

extern "C" {
Context * ggml_init(Parameters);
Tensor * ggml_new_tensor_1d(Context *, int, int64_t);
Tensor * ggml_new_tensor_2d(Context *, int, int64_t, int64_t);
Tensor * ggml_add_inplace(Context *, Tensor *, Tensor *);
Tensor * ggml_set_name(Tensor *, const char *);
void ggml_set_input(Tensor *);
Graph * ggml_new_graph(Context *);
void ggml_build_forward_expand(Graph *, Tensor *);

void ggml_backend_load_all_from_path(const char *);
Registry * ggml_backend_load(const char *);
Device * ggml_backend_dev_by_name(const char *);
BufferType * ggml_backend_dev_buffer_type(Device *);
BufferType * ggml_backend_dev_host_buffer_type(Device *);
BufferType * ggml_backend_cpu_buffer_type();
Buffer * ggml_backend_buft_alloc_buffer(BufferType *, size_t);
void * ggml_backend_buffer_get_base(Buffer *);
bool ggml_backend_buffer_is_host(Buffer *);
void ggml_backend_buffer_clear(Buffer *, uint8_t);
void ggml_backend_buffer_reset(Buffer *);
void ggml_backend_buffer_free(Buffer *);
bool ggml_backend_buffer_copy_tensor(const Tensor *, Tensor *);
int ggml_backend_tensor_alloc(Buffer *, Tensor *, void *);
void ggml_backend_tensor_set(Tensor *, const void *, size_t, size_t);
void ggml_backend_tensor_get(const Tensor *, void *, size_t, size_t);
void ggml_backend_tensor_memset(Tensor *, uint8_t, size_t, size_t);
void ggml_backend_tensor_set_2d(Tensor *, const void *, size_t, size_t, size_t, size_t, size_t);
void ggml_backend_tensor_copy(const Tensor *, Tensor *);
void ggml_backend_tensor_copy_async(Backend *, Backend *, const Tensor *, Tensor *);
void ggml_backend_synchronize(Backend *);
int ggml_backend_graph_compute_async(Backend *, Graph *);

Scheduler * ggml_backend_sched_new(Backend **, BufferType **, int, size_t, bool, bool);
bool ggml_backend_sched_alloc_graph(Scheduler *, Graph *);
int ggml_backend_sched_graph_compute_async(Scheduler *, Graph *);
void ggml_backend_sched_synchronize(Scheduler *);
void ggml_backend_sched_free(Scheduler *);
}

constexpr int type_f32 = 0;

// The tests' device, loaded.
inline Device * test_device() {
    ggml_backend_load_all_from_path(std::getenv("LIBS"));
    ggml_backend_load(std::getenv("PLUGIN"));
    return ggml_backend_dev_by_name("TEST0");
}

inline Tensor * place(Tensor * tensor, const char * name, Buffer * buffer, size_t offset) {
    ggml_set_name(tensor, name);
    ggml_backend_tensor_alloc(buffer, tensor, static_cast<char *>(ggml_backend_buffer_get_base(buffer)) + offset);
    return tensor;
}

// A tensor in a buffer of its own.
inline Tensor * placed(Context * context, const char * name, BufferType * type) {
    return place(ggml_new_tensor_1d(context, type_f32, 16), name, ggml_backend_buft_alloc_buffer(type, 4096), 0);
}
