#include "inputs.hpp"

#include <string.h>

#include <algorithm>
#include <map>
#include <string>

#include "call.hpp"
#include "exact.hpp"
#include "graphs.hpp"
#include "lives.hpp"
#include "probe.hpp"
#include "real.hpp"
#include "scheduler.hpp"

namespace hbt {

namespace {

struct Content {
    size_t size;
    uint64_t hash;
};

struct Span {
    char * start;
    size_t size;
};

// What inputs held when last looked at, by address, and what calls have written since the last look.
std::map<char *, Content> & contents() {
    static auto * map = new std::map<char *, Content>;
    return *map;
}
std::vector<Span> & written() {
    static auto * list = new std::vector<Span>;
    return *list;
}

uint64_t mixed(uint64_t value) {
    value *= 0x9e3779b97f4a7c15;
    return value ^ value >> 32;
}

// Four lanes, so that the multiplications do not wait for each other: a mask can have megabytes.
uint64_t hash_of(const char * data, size_t size) {
    uint64_t lane[4] = {size, 0x452821e638d01377, 0xbe5466cf34e90c6c, 0xc0ac29b7c97c50dd};
    size_t at = 0;
    for (; at + 32 <= size; at += 32) {
        uint64_t words[4];
        memcpy(words, data + at, 32);
        for (int i = 0; i < 4; i++) lane[i] = mixed(lane[i] ^ words[i]);
    }
    for (; at < size; at++) lane[at & 3] = mixed(lane[at & 3] ^ uint64_t(static_cast<unsigned char>(data[at])) ^ at << 8);
    return mixed(lane[0] ^ mixed(lane[1] ^ mixed(lane[2] ^ mixed(lane[3]))));
}

bool overlaps(const char * a, size_t a_size, const char * b, size_t b_size) {
    return a < b + b_size && b < a + a_size;
}

bool was_announced(const Input & input) {
    for (const Span & span : written()) {
        if (overlaps(input.data, input.size, span.start, span.size)) return true;
    }
    return false;
}

void add_input(Inputs & inputs, const ggml_tensor * tensor) {
    const ggml_tensor * root = root_of(tensor);
    if ((field<uint32_t>(root, layout()->flags) & layout()->input_bit) == 0) return;
    for (const Input & known : inputs.list) {
        if (known.tensor == root) return;
    }
    inputs.list.push_back({root, nullptr, 0, false, false, 0});
}

// How many rows of a table an input chooses: of the first such node, the tokens' embeddings. -1 for another node.
int64_t looked_up(const ggml_tensor * node) {
    if (strcmp(real::ggml_op_desc(node), "GET_ROWS") != 0) return -1;
    const ggml_tensor * rows = source_at(node, 1);
    bool input = rows != nullptr && (field<uint32_t>(root_of(rows), layout()->flags) & layout()->input_bit) != 0;
    return input ? field<int64_t>(rows, layout()->ne) : -1;
}

void place(Inputs & inputs) {
    for (Input & input : inputs.list) {
        TensorPlace at = place_of(input.tensor);
        const Buffer * buffer = buffer_of(at.buffer);
        input.host = buffer != nullptr && buffer->host;
        input.data = input.host ? at.data : nullptr;
        input.size = real::ggml_nbytes(input.tensor);
    }
}

// Inputs whose memory a node of their own graph writes: the allocator reuses it behind their last reader.
void find_clobbered(Inputs & inputs, ggml_cgraph * graph) {
    for (Input & input : inputs.list) input.clobbered = false;
    int count = node_count(graph);
    for (int i = 0; i < count; i++) {
        ggml_tensor * node = node_at(graph, i);
        if (field<const void *>(node, layout()->view_src) != nullptr) continue;
        TensorPlace at = place_of(node);
        size_t size = real::ggml_nbytes(node);
        for (Input & input : inputs.list) {
            if (input.data != nullptr && node != input.tensor && overlaps(input.data, input.size, at.data, size)) {
                input.clobbered = true;
            }
        }
    }
}

// Whether the host wrote it since the last look, and remember the look.
bool was_written(Input & input, bool bracketed) {
    uint64_t hash = hash_of(input.data, input.size);
    auto known = contents().find(input.data);
    bool first = known == contents().end() || known->second.size != input.size;
    bool changed = first || known->second.hash != hash;
    contents()[input.data] = {input.size, hash};
    if (was_announced(input)) return false;
    if (!input.clobbered || first) return changed;
    // Its graph has written over it since. An input must be set then; the bracket tells whether it was here.
    return !bracketed || input.before != hash;
}

void write_direct(const Input & input, const void * caller) {
    int64_t id = tensor_of(input.tensor);
    Row row("set_direct");
    row->number("tensor", id).flag("inferred", true);
    row.happen(caller);
}

}  // namespace

void find_inputs(Inputs & inputs, ggml_cgraph * graph) {
    inputs.list.clear();
    inputs.tokens = -1;
    int count = node_count(graph);
    for (int i = 0; i < count; i++) {
        ggml_tensor * node = node_at(graph, i);
        add_input(inputs, node);
        if (inputs.tokens < 0) inputs.tokens = looked_up(node);
        for (int s = 0; s < layout()->sources; s++) {
            if (ggml_tensor * source = source_at(node, s)) add_input(inputs, source);
        }
    }
}

void place_inputs(Inputs & inputs, ggml_cgraph * graph) {
    place(inputs);
    find_clobbered(inputs, graph);
}

void begin_inputs(Scheduler & scheduler) {
    Inputs & inputs = scheduler.inputs;
    place(inputs);  // a program may have re-pointed them
    inputs.open = true;
    inputs.asserted = inputs.direct = 0;
    if (exact::on()) return;
    for (Input & input : inputs.list) {
        if (input.clobbered && input.size > 0) input.before = hash_of(input.data, input.size);
    }
}

void end_inputs(Scheduler & scheduler, const void * caller) {
    Inputs & inputs = scheduler.inputs;
    if (!inputs.open) place(inputs);
    if (exact::on() && inputs.open) {
        exact::write_stores(inputs, caller);
        written().clear();
        inputs.open = false;
        return;
    }
    int explained = inputs.open ? inputs.direct : 0;
    for (Input & input : inputs.list) {
        if (!input.host) continue;
        bool wrote = input.size == 0 || was_written(input, inputs.open);
        if (!wrote) continue;
        explained++;
        if (input.size > 0 && wanted()) write_direct(input, caller);
    }
    if (inputs.asserted > explained && wanted()) {
        std::string attrs;
        Json(attrs).number("assertions", inputs.asserted).number("changed", explained).close();
        Row row("note");
        row->text("what", "direct_writes_unseen").raw("attrs", attrs);
        row.happen(caller);
    }
    written().clear();
    inputs.open = false;
}

void look_at_inputs(ggml_cgraph * graph, const std::vector<const ggml_tensor *> & roots, const void * caller) {
    if (roots.empty()) return;
    Inputs inputs;
    for (const ggml_tensor * root : roots) inputs.list.push_back({root, nullptr, 0, false, false, 0});
    place_inputs(inputs, graph);
    for (Input & input : inputs.list) {
        if (!input.host || input.size == 0) continue;
        if (was_written(input, false)) write_direct(input, caller);
        // What calls wrote to a scheduler's inputs is still to be asked for.
        auto is_here = [&](const Span & span) { return overlaps(input.data, input.size, span.start, span.size); };
        written().erase(std::remove_if(written().begin(), written().end(), is_here), written().end());
    }
}

void announced(const ggml_tensor * tensor, size_t offset, size_t size) {
    uint32_t flags = field<uint32_t>(root_of(tensor), layout()->flags);
    // Where nothing is computed, nobody looks.
    if ((flags & layout()->input_bit) != 0 && written().size() < 4096) written().push_back({place_of(tensor).data + offset, size});
}

void host_asserted() {
    if (thread.scheduler != nullptr) thread.scheduler->inputs.asserted++;
}

void host_announced() {
    if (thread.bracket && thread.scheduler != nullptr) thread.scheduler->inputs.direct++;
}

void forget_contents(const char * base, size_t size) {
    auto & map = contents();
    map.erase(map.lower_bound(const_cast<char *>(base)), map.lower_bound(const_cast<char *>(base) + size));
}

}  // namespace hbt
