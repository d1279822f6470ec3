#include "vtable.hpp"

#include <unordered_map>

#include "call.hpp"
#include "inputs.hpp"
#include "lives.hpp"
#include "probe.hpp"
#include "real.hpp"

namespace hbt {

namespace {

using Copy = bool (*)(ggml_backend *, ggml_backend *, const ggml_tensor *, ggml_tensor *);

std::unordered_map<ggml_backend *, Copy> & originals() {
    static auto * map = new std::unordered_map<ggml_backend *, Copy>;
    return *map;
}

// What the format says of a copy that names no queue; a note says that nobody knows better.
CopyRule default_rule(ggml_backend * to, int64_t backend, const ggml_tensor * src, const void * caller) {
    if (std::string registry = untold_registry(to); !registry.empty()) {
        std::string attrs;
        Json(attrs).number("backend", backend).text("registry", registry).close();
        Row row("note");
        row->text("what", "copy_rule_unknown").raw("attrs", attrs);
        row.happen(caller);
    }
    const Buffer * buffer = buffer_of(place_of(src).buffer);
    return {buffer != nullptr && buffer->host ? "dst" : "src", false};
}

void write_copy(ggml_backend * from, ggml_backend * to, const ggml_tensor * src, ggml_tensor * dst, const void * caller) {
    int64_t src_backend = backend_of(from), backend = backend_of(to), src_id = tensor_of(src), dst_id = tensor_of(dst);
    std::string src_range, dst_range;
    append_range(src_range, src, src_id);
    append_range(dst_range, dst, dst_id);
    CopyRule rule = copy_rule(to);
    if (rule.runs_on.empty()) rule = default_rule(to, backend, src, caller);
    Row row("copy_async");
    row->number("backend", backend).number("src_backend", src_backend).raw("src", src_range).raw("dst", dst_range);
    row->text("runs_on", rule.runs_on).flag("after_dst", rule.after_dst);
    row.happen(caller);
}

void write_refusal(ggml_backend * from, ggml_backend * to, const ggml_tensor * src, const void * caller) {
    std::string attrs;
    int64_t src_backend = backend_of(from), backend = backend_of(to), tensor = tensor_of(src);
    Json(attrs).number("backend", backend).number("src_backend", src_backend).number("tensor", tensor).close();
    Row row("note");
    row->text("what", "copy_refused").raw("attrs", attrs);
    row.happen(caller);
}

bool copy_between(ggml_backend * from, ggml_backend * to, const ggml_tensor * src, ggml_tensor * dst) {
    const void * caller = HBT_CALLER;
    Copy original;
    {
        std::lock_guard<std::mutex> held(spool::lock());
        original = originals()[to];
    }
    bool done;
    {
        // The row stands where the copy is issued, and only the answer says whether it was: nothing between the two
        // is an event, as this thread is inside and the copy's own calls are part of it.
        Inside inside;
        done = original(from, to, src, dst);
    }
    if (thread.depth > 0) return done;
    Recording recording;
    if (recording) {
        Inside inside;
        if (done) announced(dst, 0, real::ggml_nbytes(dst));
        split_copies(caller);
        if (wanted()) {
            if (done) {
                write_copy(from, to, src, dst, caller);
            } else {
                write_refusal(from, to, src, caller);
            }
        }
    }
    return done;
}

}  // namespace

void patch(ggml_backend * backend) {
    int slot = layout()->copy_async;
    auto ** words = reinterpret_cast<void **>(backend);
    auto * ours = reinterpret_cast<void *>(&copy_between);
    if (words[slot] == nullptr || words[slot] == ours) return;
    originals()[backend] = reinterpret_cast<Copy>(words[slot]);
    words[slot] = ours;
}

void unpatch(ggml_backend * backend) { originals().erase(backend); }

}  // namespace hbt
