#include "graphs.hpp"

#include <string.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "call.hpp"
#include "inputs.hpp"
#include "lives.hpp"
#include "probe.hpp"
#include "real.hpp"
#include "scheduler.hpp"

namespace hbt {

namespace {

struct Movable {  // a tensor that a program may re-point without making the graph anew
    const ggml_tensor * tensor;
    char * data;
    ggml_backend_buffer * buffer;
};

struct Known {
    uint64_t uid;
    uint64_t epoch;
    int nodes;
    const ggml_tensor * first;
    const ggml_tensor * last;
    int64_t backend;
    int64_t id;
    std::vector<Movable> inputs;
};

struct Graphs {
    std::unordered_map<const ggml_cgraph *, Known> by_pointer;
    std::unordered_map<uint64_t, int64_t> by_signature;
    uint64_t epoch = 1;
    int64_t next = 0;
};

Graphs & all() {
    static Graphs * graphs = new Graphs;
    return *graphs;
}

uint64_t uid_of(const ggml_cgraph * graph) { return uid_offset() < 0 ? 0 : field<uint64_t>(graph, uid_offset()); }

bool is_input(const ggml_tensor * root) {
    // The scheduler's own copy of an input (`backend#tensor#slot`) has the flag, too.
    return (field<uint32_t>(root, layout()->flags) & layout()->input_bit) != 0;
}

bool is_unchanged(const Known & known, ggml_cgraph * graph, int64_t backend) {
    int nodes = node_count(graph);
    if (nodes != known.nodes || backend != known.backend || nodes == 0) return false;
    if (known.first != node_at(graph, 0) || known.last != node_at(graph, nodes - 1)) return false;
    uint64_t uid = uid_of(graph);
    // Without a number, only a graph of the scheduler's stays as it is, and only until the next allocation.
    bool same = uid != 0 ? uid == known.uid : thread.computing && known.uid == 0 && known.epoch == all().epoch;
    if (!same) return false;
    for (const Movable & input : known.inputs) {
        TensorPlace place = place_of(input.tensor);
        if (place.data != input.data || place.buffer != input.buffer) return false;
    }
    return true;
}

bool touches_nothing(const char * op) {
    for (const char * view : {"NONE", "VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE"}) {
        if (strcmp(op, view) == 0) return true;
    }
    return false;
}

bool is_computed(const ggml_tensor * node) {
    uint32_t bit = layout()->compute_bit;
    return bit == 0 || (field<uint32_t>(node, layout()->flags) & bit) != 0;
}

// Of this source only rows that the host does not know here are read.
bool reads_some(const char * op, int index) {
    if (strcmp(op, "GET_ROWS") == 0) return index == 0;
    if (strcmp(op, "SET_ROWS") == 0) return index == 2;
    return strcmp(op, "MUL_MAT_ID") == 0 && index == 0;
}

struct Mix {
    uint64_t hash = 0x243f6a8885a308d3;
    void add(uint64_t value) {
        hash = (hash ^ value) * 0x9e3779b97f4a7c15;
        hash ^= hash >> 29;
    }
};

// Whether it computes nothing that touches memory.
bool is_idle(const ggml_tensor * node, const char * op) { return touches_nothing(op) || !is_computed(node); }

bool is_read(const ggml_tensor * source, int index, const char * op) {
    return source != nullptr && !(index == 1 && strcmp(op, "CPY") == 0);
}

// What identifies a graph: operations, tensors (an id holds shape and place), queues. And what may move in it.
struct Walk {
    Mix signature;
    std::vector<Movable> inputs;
    std::vector<const ggml_tensor *> roots;

    void note_input(const ggml_tensor * tensor) {
        const ggml_tensor * root = root_of(tensor);
        if (!is_input(root)) return;
        for (const ggml_tensor * known : roots) {
            if (known == root) return;
        }
        roots.push_back(root);
        TensorPlace place = place_of(root);
        inputs.push_back({root, place.data, place.buffer});
    }

    void add(ggml_tensor * node) {
        const char * op = real::ggml_op_desc(node);  // always the same pointer: an entry of a table of ggml's
        signature.add(reinterpret_cast<uint64_t>(op));
        signature.add(uint64_t(tensor_of(node)) << 1 | uint64_t(is_computed(node)));
        signature.add(uint64_t(scheduled_on(node)));
        if (is_idle(node, op)) return;
        for (int i = 0; i < layout()->sources; i++) {
            ggml_tensor * source = source_at(node, i);
            if (!is_read(source, i, op)) continue;
            signature.add(uint64_t(tensor_of(source)) << 8 | uint64_t(i));
            note_input(source);
        }
    }
};

// A node as JSON. Its tensors are defined.
void append_node(std::string & nodes, ggml_tensor * node) {
    const char * op = real::ggml_op_desc(node);
    int64_t id = tensor_of(node);
    nodes += nodes.size() == 1 ? "{\"op\":" : ",{\"op\":";
    append_text(nodes, op);
    nodes += ",\"tensor\":";
    append_number(nodes, id);
    if (int64_t backend = scheduled_on(node); backend >= 0) {
        nodes += ",\"backend\":";
        append_number(nodes, backend);
    }
    if (!is_idle(node, op)) {
        const char * before = ",\"reads\":[";
        for (int i = 0; i < layout()->sources; i++) {
            ggml_tensor * source = source_at(node, i);
            if (!is_read(source, i, op)) continue;
            nodes += before;
            before = ",";
            append_range(nodes, source, tensor_of(source), reads_some(op, i));
        }
        nodes += *before == ',' && before[1] == '\0' ? "],\"writes\":[" : ",\"writes\":[";
        append_range(nodes, node, id, strcmp(op, "SET_ROWS") == 0);
        nodes += ']';
    }
    nodes += '}';
}

}  // namespace

int node_count(ggml_cgraph * graph) { return real::ggml_graph_n_nodes(graph); }

ggml_tensor * node_at(ggml_cgraph * graph, int index) { return real::ggml_graph_node(graph, index); }

ggml_tensor * source_at(const ggml_tensor * tensor, int index) {
    return field<ggml_tensor *>(tensor, layout()->src + 8 * index);
}

int64_t graph_of(ggml_backend * backend, ggml_cgraph * graph) {
    int64_t queue = backend_of(backend);
    if (thread.computing && thread.scheduler != nullptr) {
        learn_uid(graph, thread.scheduler->uid_before, thread.scheduler->uid_after);
    }
    auto at = all().by_pointer.find(graph);
    if (at != all().by_pointer.end() && is_unchanged(at->second, graph, queue)) return at->second.id;
    Walk walk;
    int count = node_count(graph);
    for (int i = 0; i < count; i++) walk.add(node_at(graph, i));
    auto [place, fresh] = all().by_signature.try_emplace(walk.signature.hash, all().next);
    if (fresh) {
        all().next++;
        std::string nodes = "[";
        for (int i = 0; i < count; i++) append_node(nodes, node_at(graph, i));
        nodes += ']';
        Row row("graph");
        row->number("id", place->second);
        if (uint64_t uid = uid_of(graph)) row->number("uid", int64_t(uid));
        row->raw("nodes", nodes);
        row.define();
    }
    all().by_pointer[graph] = {
        uid_of(graph), all().epoch,   count, count ? node_at(graph, 0) : nullptr, count ? node_at(graph, count - 1) : nullptr,
        queue,         place->second, std::move(walk.inputs)
    };
    return place->second;
}

std::vector<const ggml_tensor *> inputs_of(ggml_cgraph * graph) {
    std::vector<const ggml_tensor *> roots;
    for (const Movable & input : all().by_pointer[graph].inputs) roots.push_back(input.tensor);
    return roots;
}

void graphs_may_change() { all().epoch++; }

void forget_graphs() { all() = Graphs{}; }

}  // namespace hbt
