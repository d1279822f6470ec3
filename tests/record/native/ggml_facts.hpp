// What a backend plugin must know of ggml, declared here from facts: which functions a table has, in which order. Not
// ggml's headers; only what the plugin of these tests uses. Interface version 2 (v0.5.0), or 1 (of August 2025).
#pragma once

#ifndef HBTEST_INTERFACE
#define HBTEST_INTERFACE 2
#endif

#include <cstddef>
#include <cstdint>

struct Tensor;
struct Graph;
struct Buffer;
struct BufferType;
struct Backend;
struct Device;
struct Registry;
struct Event;

struct BufferTypeTable {
    const char * (*name)(BufferType *);
    Buffer * (*alloc)(BufferType *, size_t);
    size_t (*alignment)(BufferType *);
    size_t (*max_size)(BufferType *);
    size_t (*alloc_size)(BufferType *, const Tensor *);
    bool (*is_host)(BufferType *);
};

struct BufferType {
    BufferTypeTable table;
    Device * device;
    void * context;
};

struct BufferTable {
    void (*free)(Buffer *);
    void * (*base)(Buffer *);
    int (*init_tensor)(Buffer *, Tensor *);
    void (*memset_tensor)(Buffer *, Tensor *, uint8_t, size_t, size_t);
    void (*set_tensor)(Buffer *, Tensor *, const void *, size_t, size_t);
    void (*get_tensor)(Buffer *, const Tensor *, void *, size_t, size_t);
#if HBTEST_INTERFACE == 2
    void (*set_tensor_2d)(Buffer *, Tensor *, const void *, size_t, size_t, size_t, size_t, size_t);
    void (*get_tensor_2d)(Buffer *, const Tensor *, void *, size_t, size_t, size_t, size_t, size_t);
#endif
    bool (*copy_tensor)(Buffer *, const Tensor *, Tensor *);
    void (*clear)(Buffer *, uint8_t);
    void (*reset)(Buffer *);
};

struct Buffer {
    BufferTable table;
    BufferType * type;
    void * context;
    size_t size;
    int usage;
};

struct BackendTable {
    const char * (*name)(Backend *);
    void (*free)(Backend *);
    void (*set_async)(Backend *, Tensor *, const void *, size_t, size_t);
    void (*get_async)(Backend *, const Tensor *, void *, size_t, size_t);
#if HBTEST_INTERFACE == 2
    void (*set_2d_async)(Backend *, Tensor *, const void *, size_t, size_t, size_t, size_t, size_t);
    void (*get_2d_async)(Backend *, const Tensor *, void *, size_t, size_t, size_t, size_t, size_t);
#endif
    bool (*copy_async)(Backend *, Backend *, const Tensor *, Tensor *);
    void (*synchronize)(Backend *);
    void * (*plan_create)(Backend *, const Graph *);
    void (*plan_free)(Backend *, void *);
    void (*plan_update)(Backend *, void *, const Graph *);
    int (*plan_compute)(Backend *, void *);
    int (*compute)(Backend *, Graph *);
    void (*event_record)(Backend *, Event *);
    void (*event_wait)(Backend *, Event *);
#if HBTEST_INTERFACE == 2
    void (*optimize)(Backend *, Graph *, void *);
#endif
};

struct Backend {
    const uint8_t * guid;
    BackendTable table;
    Device * device;
    void * context;
};

struct Event {
    Device * device;
    void * context;
};

struct Properties {
    const char * name;
    const char * description;
    size_t memory_free, memory_total;
    int type;
#if HBTEST_INTERFACE == 2
    const char * device_id;
    bool async, host_buffer, from_host_pointer, events, mmap;
#else
    bool async, host_buffer, from_host_pointer, events;
#endif
};

struct DeviceTable {
    const char * (*name)(Device *);
    const char * (*description)(Device *);
    void (*memory)(Device *, size_t *, size_t *);
    int (*type)(Device *);
    void (*properties)(Device *, Properties *);
    Backend * (*init)(Device *, const char *);
    BufferType * (*buffer_type)(Device *);
    BufferType * (*host_buffer_type)(Device *);
    Buffer * (*from_host_pointer)(Device *, void *, size_t, size_t);
    bool (*supports_op)(Device *, const Tensor *);
    bool (*supports_buffer_type)(Device *, BufferType *);
    bool (*offload_op)(Device *, const Tensor *);
    Event * (*event_new)(Device *);
    void (*event_free)(Device *, Event *);
    void (*event_synchronize)(Device *, Event *);
};

struct Device {
    DeviceTable table;
    Registry * registry;
    void * context;
};

struct Registry {
    int version;
    struct {
        const char * (*name)(Registry *);
        size_t (*count)(Registry *);
        Device * (*device)(Registry *, size_t);
        void * (*address)(Registry *, const char *);
    } table;
    void * context;
};

constexpr int most_sources = 10;

struct Tensor {
    int type;
    Buffer * buffer;
    int64_t ne[4];
    size_t nb[4];
    int op;
    int32_t parameters[16];
    int32_t flags;
    Tensor * src[most_sources];
    Tensor * view_src;
    size_t view_offset;
    void * data;
    char name[64];
    void * extra;
    char padding[8];
};

struct Graph {
    int size, nodes_used, leafs_used;
    Tensor ** nodes;
    Tensor ** grads;
    Tensor ** accumulators;
    Tensor ** leafs;
    int32_t * uses;
    struct {
        size_t size;
        uint32_t * used;
        Tensor ** keys;
    } visited;
    int order;
    uint64_t uid;
};

// Version 1 knows no integrated GPU.
enum : int { type_cpu = 0, type_gpu = 1, type_igpu = HBTEST_INTERFACE == 2 ? 2 : 1 };

extern "C" {
Device * ggml_backend_dev_by_type(int);
Backend * ggml_backend_dev_init(Device *, const char *);
Registry * ggml_backend_dev_backend_reg(Device *);
void * ggml_backend_reg_get_proc_address(Registry *, const char *);
bool ggml_backend_dev_supports_op(Device *, const Tensor *);
void ggml_backend_free(Backend *);
Buffer * ggml_backend_buffer_init(BufferType *, BufferTable, void *, size_t);
size_t ggml_nbytes(const Tensor *);
}
