// Interposed: lives of buffers, what is done to a whole one, and where tensors are put.
#include "call.hpp"
#include "graphs.hpp"
#include "inputs.hpp"
#include "lives.hpp"
#include "real.hpp"

using namespace hbt;

namespace {

void born(ggml_backend_buffer * buffer) {
    if (buffer == nullptr || thread.depth > 0) return;
    Recording recording;
    if (!recording) return;
    Inside inside;
    leave_ubatch();
    buffer_born(buffer);
    // Probing with nothing is no life: some backends ask dozens of times at load.
    if (real::ggml_backend_buffer_get_size(buffer) > 0 && !is_multiple(buffer)) buffer_of(buffer);
}

void write_whole(const char * event, ggml_backend_buffer * buffer, const void * caller) {
    int64_t id = buffer_of(buffer)->id;
    Row row(event);
    row->number("buffer", id);
    row.happen(caller);
}

void write_reset(int64_t buffer, const void * caller) {
    std::string attrs;
    Json(attrs).number("buffer", buffer).close();
    Row row("note");
    row->text("what", "buffer_reset").raw("attrs", attrs);
    row.happen(caller);
}

bool has_memory(ggml_backend_buffer * buffer) {
    if (is_multiple(buffer)) return false;
    return real::ggml_backend_buffer_get_size(buffer) > 0 && real::ggml_backend_buffer_get_base(buffer) != nullptr;
}

}  // namespace

HBT_EXPORT ggml_backend_buffer * ggml_backend_buft_alloc_buffer(ggml_backend_buffer_type * type, size_t size) {
    auto * buffer = real::ggml_backend_buft_alloc_buffer(type, size);
    born(buffer);
    return buffer;
}

HBT_EXPORT ggml_backend_buffer * ggml_backend_dev_buffer_from_host_ptr(
    ggml_backend_device * device, void * memory, size_t size, size_t most
) {
    auto * buffer = real::ggml_backend_dev_buffer_from_host_ptr(device, memory, size, most);
    born(buffer);
    return buffer;
}

HBT_EXPORT ggml_backend_buffer * ggml_backend_cpu_buffer_from_ptr(void * memory, size_t size) {
    auto * buffer = real::ggml_backend_cpu_buffer_from_ptr(memory, size);
    born(buffer);
    return buffer;
}

HBT_EXPORT void ggml_backend_buffer_free(ggml_backend_buffer * buffer) {
    if (thread.depth == 0 && buffer != nullptr) {
        const void * caller = HBT_CALLER;
        Recording recording;
        if (recording && is_known(buffer)) {
            Inside inside;
            leave_ubatch();
            // Outside of the wanted ubatches the waits before it are not in the trace: it would race falsely.
            if (wanted()) write_whole("buffer_free", buffer, caller);
            buffer_died(buffer);
            graphs_may_change();
        }
    }
    real::ggml_backend_buffer_free(buffer);
}

HBT_EXPORT void ggml_backend_buffer_clear(ggml_backend_buffer * buffer, uint8_t value) {
    // One that is made of others clears those by this same function.
    if (thread.depth > 0 || !has_memory(buffer)) return real::ggml_backend_buffer_clear(buffer, value);
    {
        const void * caller = HBT_CALLER;
        Recording recording;
        if (recording) leave_ubatch();
        if (recording && wanted()) {
            Inside inside;
            write_whole("buffer_clear", buffer, caller);
        }
    }
    Inside inside;
    real::ggml_backend_buffer_clear(buffer, value);
}

// The tensors in it are given up, its bytes stay: no access, but the next tensor there is another one.
HBT_EXPORT void ggml_backend_buffer_reset(ggml_backend_buffer * buffer) {
    if (thread.depth == 0 && has_memory(buffer)) {
        const void * caller = HBT_CALLER;
        Recording recording;
        if (recording) {
            Inside inside;
            graphs_may_change();
            if (wanted()) write_reset(buffer_of(buffer)->id, caller);
        }
    }
    Inside inside;
    real::ggml_backend_buffer_reset(buffer);
}

HBT_EXPORT void ggml_backend_buffer_set_usage(ggml_backend_buffer * buffer, int usage) {
    real::ggml_backend_buffer_set_usage(buffer, usage);
    if (thread.depth > 0) return;
    Recording recording;
    if (recording) {
        Inside inside;
        buffer_changed(buffer);
    }
}

HBT_EXPORT int ggml_backend_tensor_alloc(ggml_backend_buffer * buffer, ggml_tensor * tensor, void * address) {
    int status = real::ggml_backend_tensor_alloc(buffer, tensor, address);
    if (thread.depth == 0) {
        Recording recording;
        if (recording) tensor_made(tensor);
    }
    return status;
}

HBT_EXPORT int ggml_backend_view_init(ggml_tensor * tensor) {
    int status = real::ggml_backend_view_init(tensor);
    if (thread.depth == 0) {
        Recording recording;
        if (recording) tensor_made(tensor);
    }
    return status;
}

// A marker: the program asks this right before it writes to an input's memory by itself.
HBT_EXPORT bool ggml_backend_buffer_is_host(ggml_backend_buffer * buffer) {
    bool host = real::ggml_backend_buffer_is_host(buffer);
    if (thread.bracket && thread.depth == 0 && host) {
        const void * caller = HBT_CALLER;
        Recording recording;
        if (recording && !in_ggml(caller)) host_asserted();
    }
    return host;
}
