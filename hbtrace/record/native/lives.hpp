// Identity: which id a pointer stands for now. Pointers are freed and reused, so an id is one life of a thing; a thing
// is defined (its row written) when it is first seen. Everything here is called with the lock held and expects the
// program's things to be alive.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ggml_names.hpp"
#include "row.hpp"

namespace hbt {

// ---- buffers
struct Buffer {
    int64_t id;
    char * base;  // null: one without memory of its own
    size_t size;
    bool host;
};
// Null for a null pointer.
const Buffer * buffer_of(ggml_backend_buffer * buffer);
void buffer_born(ggml_backend_buffer * buffer);         // whatever was known of the pointer is over
void buffer_changed(ggml_backend_buffer * buffer);      // its usage: sends the row again
void buffer_died(ggml_backend_buffer * buffer);
bool is_known(ggml_backend_buffer * buffer);
bool is_multiple(ggml_backend_buffer * buffer);         // made of others, with no memory of its own
uint64_t buffer_lives();                                // counts births and deaths
// The host buffer that holds these bytes, as a range; empty if none does.
std::string host_range(const void * start, size_t size);
std::vector<Buffer> host_buffers();

// ---- queues
int64_t backend_of(ggml_backend * backend);
bool backend_died(ggml_backend * backend, int64_t & id);  // false: it was never seen
// How this backend's asynchronous copies run, as JSON keys; facts of the backend that no call tells.
struct CopyRule {
    std::string runs_on;
    bool after_dst = false;
};
// `runs_on` is empty where nobody has said it.
const CopyRule & copy_rule(ggml_backend * backend);
// The name of its registry, once: empty from then on.
std::string untold_registry(ggml_backend * backend);
bool has_slot(ggml_backend * backend, int slot);

// ---- tensors
struct TensorPlace {
    ggml_backend_buffer * buffer;
    char * data;
};
TensorPlace place_of(const ggml_tensor * tensor);
const ggml_tensor * root_of(const ggml_tensor * tensor);
int64_t tensor_of(const ggml_tensor * tensor);
// The program says that this tensor is made anew: the next sight of the pointer is no re-point of the old one.
void tensor_made(const ggml_tensor * tensor);
// The tensor as a range: as rows where it is strided, `approx` where rows cannot say it.
void append_range(std::string & out, const ggml_tensor * tensor, int64_t id, bool approx = false);

// ---- events
int64_t event_of(ggml_backend_event * event);
void event_died(ggml_backend_event * event);

// In a fork's child: nothing is defined any more.
void forget_lives();

}  // namespace hbt
