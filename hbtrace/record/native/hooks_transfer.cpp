// Interposed: set, get, memset and copy, blocking and queued.
#include "call.hpp"
#include "exact.hpp"
#include "inputs.hpp"
#include "lives.hpp"
#include "probe.hpp"
#include "real.hpp"

using namespace hbt;

namespace {

struct Piece {  // of a tensor: `rows` pieces of `size` bytes, `stride` apart
    size_t offset, size, rows = 1, stride = 0;
};

size_t extent(const Piece & piece) {
    return piece.rows == 0 ? 0 : (piece.rows - 1) * piece.stride + piece.size;
}

void append_piece(Row & row, int64_t tensor, const Piece & piece) {
    row->number("tensor", tensor);
    if (piece.offset != 0) row->number("offset", int64_t(piece.offset));
    row->number("size", int64_t(piece.rows == 0 ? 0 : piece.size));
    if (piece.rows > 1) row->number("rows", int64_t(piece.rows)).number("stride", int64_t(piece.stride));
}

enum class Way { read, write };

void write_blocking(const char * event, const ggml_tensor * tensor, Piece piece, Way way, const void * caller) {
    Recording recording;
    if (!recording) return;
    Inside inside;
    if (way == Way::write) announced(tensor, piece.offset, extent(piece));
    if (!wanted()) return;
    int64_t id = tensor_of(tensor);
    Row row(event);
    append_piece(row, id, piece);
    row.happen(caller);
}

void write_queued(
    const char * event, ggml_backend * backend, const ggml_tensor * tensor, Piece piece, const void * host,
    size_t host_stride, Way way, const void * caller
) {
    Recording recording;
    if (!recording) return;
    Inside inside;
    if (way == Way::write) announced(tensor, piece.offset, extent(piece));
    if (way == Way::write) split_copies(caller);
    if (!wanted()) return;
    int64_t id = tensor_of(tensor), queue = backend_of(backend);
    size_t length = piece.rows > 1 ? (piece.rows - 1) * host_stride + piece.size : piece.size;
    std::string range = host_range(host, length);
    Row row(event);
    row->number("backend", queue);
    append_piece(row, id, piece);
    if (!range.empty()) row->raw("host_range", range);
    row.happen(caller);
}

// `dst` is written through the copy; nothing else is known of it by then.
void write_copied(const ggml_tensor * src, ggml_tensor * dst, const void * caller) {
    Recording recording;
    if (!recording) return;
    Inside inside;
    announced(dst, 0, real::ggml_nbytes(dst));
    split_copies(caller);
    if (!wanted()) return;
    int64_t src_id = tensor_of(src), dst_id = tensor_of(dst);
    std::string src_range, dst_range;
    append_range(src_range, src, src_id);
    append_range(dst_range, dst, dst_id);
    Row row("tensor_copy");
    row->raw("src", src_range).raw("dst", dst_range);
    row.happen(caller);
}

// Whether this call is an event here: not inside another one, and its backend does it rather than ggml by other calls.
bool is_queued(ggml_backend * backend, int Layout::* slot) {
    std::lock_guard<std::mutex> held(spool::lock());
    const Layout * known = layout();
    return known != nullptr && has_slot(backend, known->*slot);
}

// What a build has not, a program finds here all the same when it asks for the name (a weak symbol, dlsym): each is done
// by what every build has.
template <class One> void by_row(size_t rows, size_t stride, size_t host_stride, One && one) {
    for (size_t i = 0; i < rows; i++) one(i * stride, i * host_stride);
}

const char * at(const void * data, size_t offset) { return static_cast<const char *>(data) + offset; }
char * at(void * data, size_t offset) { return static_cast<char *>(data) + offset; }

}  // namespace

HBT_EXPORT void ggml_backend_tensor_set(ggml_tensor * tensor, const void * data, size_t offset, size_t size) {
    if (thread.depth == 0) write_blocking("tensor_set", tensor, {offset, size}, Way::write, HBT_CALLER);
    exact::Lifted lifted;
    Inside inside;
    real::ggml_backend_tensor_set(tensor, data, offset, size);
}

HBT_EXPORT void ggml_backend_tensor_get(const ggml_tensor * tensor, void * data, size_t offset, size_t size) {
    if (thread.depth == 0) write_blocking("tensor_get", tensor, {offset, size}, Way::read, HBT_CALLER);
    Inside inside;
    real::ggml_backend_tensor_get(tensor, data, offset, size);
}

HBT_EXPORT void ggml_backend_tensor_memset(ggml_tensor * tensor, uint8_t value, size_t offset, size_t size) {
    if (thread.depth == 0) write_blocking("tensor_memset", tensor, {offset, size}, Way::write, HBT_CALLER);
    exact::Lifted lifted;
    Inside inside;
    real::ggml_backend_tensor_memset(tensor, value, offset, size);
}

HBT_EXPORT void ggml_backend_tensor_set_2d(
    ggml_tensor * tensor, const void * data, size_t offset, size_t size, size_t rows, size_t stride, size_t host_stride
) {
    if (thread.depth == 0) write_blocking("tensor_set", tensor, {offset, size, rows, stride}, Way::write, HBT_CALLER);
    exact::Lifted lifted;
    Inside inside;
    if (real::ggml_backend_tensor_set_2d) {
        return real::ggml_backend_tensor_set_2d(tensor, data, offset, size, rows, stride, host_stride);
    }
    by_row(rows, stride, host_stride, [&](size_t there, size_t here) {
        real::ggml_backend_tensor_set(tensor, at(data, here), offset + there, size);
    });
}

HBT_EXPORT void ggml_backend_tensor_get_2d(
    const ggml_tensor * tensor, void * data, size_t offset, size_t size, size_t rows, size_t stride, size_t host_stride
) {
    if (thread.depth == 0) write_blocking("tensor_get", tensor, {offset, size, rows, stride}, Way::read, HBT_CALLER);
    Inside inside;
    if (real::ggml_backend_tensor_get_2d) {
        return real::ggml_backend_tensor_get_2d(tensor, data, offset, size, rows, stride, host_stride);
    }
    by_row(rows, stride, host_stride, [&](size_t there, size_t here) {
        real::ggml_backend_tensor_get(tensor, at(data, here), offset + there, size);
    });
}

HBT_EXPORT void ggml_backend_tensor_copy(const ggml_tensor * src, ggml_tensor * dst) {
    if (thread.depth == 0 && src != dst) write_copied(src, dst, HBT_CALLER);
    exact::Lifted lifted;
    Inside inside;
    real::ggml_backend_tensor_copy(src, dst);
}

// What the one above tries first; a program may do so itself. Only the answer says whether anything was copied.
HBT_EXPORT bool ggml_backend_buffer_copy_tensor(const ggml_tensor * src, ggml_tensor * dst) {
    bool done;
    {
        exact::Lifted lifted;
        Inside inside;
        done = real::ggml_backend_buffer_copy_tensor(src, dst);
    }
    if (done && thread.depth == 0) write_copied(src, dst, HBT_CALLER);
    return done;
}

HBT_EXPORT void ggml_backend_tensor_set_async(
    ggml_backend * backend, ggml_tensor * tensor, const void * data, size_t offset, size_t size
) {
    exact::Lifted lifted;
    if (thread.depth > 0 || !is_queued(backend, &Layout::set_async)) {
        return real::ggml_backend_tensor_set_async(backend, tensor, data, offset, size);
    }
    write_queued("set_async", backend, tensor, {offset, size}, data, 0, Way::write, HBT_CALLER);
    Inside inside;
    real::ggml_backend_tensor_set_async(backend, tensor, data, offset, size);
}

HBT_EXPORT void ggml_backend_tensor_get_async(
    ggml_backend * backend, const ggml_tensor * tensor, void * data, size_t offset, size_t size
) {
    if (thread.depth > 0 || !is_queued(backend, &Layout::get_async)) {
        return real::ggml_backend_tensor_get_async(backend, tensor, data, offset, size);
    }
    write_queued("get_async", backend, tensor, {offset, size}, data, 0, Way::read, HBT_CALLER);
    Inside inside;
    real::ggml_backend_tensor_get_async(backend, tensor, data, offset, size);
}

HBT_EXPORT void ggml_backend_tensor_set_2d_async(
    ggml_backend * backend, ggml_tensor * tensor, const void * data, size_t offset, size_t size, size_t rows,
    size_t stride, size_t host_stride
) {
    if (!real::ggml_backend_tensor_set_2d_async) {
        return by_row(rows, stride, host_stride, [&](size_t there, size_t here) {
            ggml_backend_tensor_set_async(backend, tensor, at(data, here), offset + there, size);
        });
    }
    exact::Lifted lifted;
    // Without that slot, or with one row, ggml does it by the one-dimensional call.
    if (thread.depth > 0 || rows <= 1 || !is_queued(backend, &Layout::set_2d_async)) {
        return real::ggml_backend_tensor_set_2d_async(backend, tensor, data, offset, size, rows, stride, host_stride);
    }
    Piece piece{offset, size, rows, stride};
    write_queued("set_async", backend, tensor, piece, data, host_stride, Way::write, HBT_CALLER);
    Inside inside;
    real::ggml_backend_tensor_set_2d_async(backend, tensor, data, offset, size, rows, stride, host_stride);
}

HBT_EXPORT void ggml_backend_tensor_get_2d_async(
    ggml_backend * backend, const ggml_tensor * tensor, void * data, size_t offset, size_t size, size_t rows,
    size_t stride, size_t host_stride
) {
    if (!real::ggml_backend_tensor_get_2d_async) {
        return by_row(rows, stride, host_stride, [&](size_t there, size_t here) {
            ggml_backend_tensor_get_async(backend, tensor, at(data, here), offset + there, size);
        });
    }
    if (thread.depth > 0 || rows <= 1 || !is_queued(backend, &Layout::get_2d_async)) {
        return real::ggml_backend_tensor_get_2d_async(backend, tensor, data, offset, size, rows, stride, host_stride);
    }
    Piece piece{offset, size, rows, stride};
    write_queued("get_async", backend, tensor, piece, data, host_stride, Way::read, HBT_CALLER);
    Inside inside;
    real::ggml_backend_tensor_get_2d_async(backend, tensor, data, offset, size, rows, stride, host_stride);
}

// A frame: the backend's own function, or the waits and the copy that it makes instead, are the events.
HBT_EXPORT void ggml_backend_tensor_copy_async(
    ggml_backend * from, ggml_backend * to, const ggml_tensor * src, ggml_tensor * dst
) {
    if (thread.depth == 0) {
        Recording recording;
        if (recording) {
            Inside inside;
            backend_of(from), backend_of(to);  // never seen before, their functions are not replaced yet
        }
    }
    exact::Lifted lifted;
    real::ggml_backend_tensor_copy_async(from, to, src, dst);
}

// The fork's announcement of a write through `tensor->data`.
HBT_EXPORT void ggml_backend_tensor_set_direct(ggml_tensor * tensor, size_t offset, size_t size) {
    if (thread.depth == 0) {
        write_blocking("set_direct", tensor, {offset, size}, Way::write, HBT_CALLER);
        host_announced();
    }
    Inside inside;
    if (real::ggml_backend_tensor_set_direct) real::ggml_backend_tensor_set_direct(tensor, offset, size);
}
