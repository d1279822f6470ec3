// Tensors by what they are: name, shape and place, within one life of their buffer. One that is made anew at the same
// place with the same name and shape keeps its id, so that a graph built for every ubatch is one graph.
#include <string.h>

#include <unordered_map>

#include "call.hpp"
#include "lives.hpp"
#include "probe.hpp"
#include "real.hpp"

namespace hbt {

void forget_buffers();
void forget_queues();
void forget_graphs();
void forget_schedulers();
void forget_plans();
void forget_meta();

namespace {

constexpr size_t name_bytes = 64;

struct Seen {
    int64_t id;
    char * data;
    int64_t buffer_id;
    int64_t root;  // its id; -1: no view
    int type;
    bool made;  // anew, since it was seen: then another place is no re-pointing
    char name[name_bytes];
    int64_t shape[8];  // ne, nb
};

struct Tensors {
    std::unordered_map<const ggml_tensor *, Seen> seen;
    std::unordered_map<std::string, int64_t> ids;
    std::vector<std::string> keys;  // by id: what it is known by now
};

Tensors & all() {
    static Tensors * tensors = new Tensors;
    return *tensors;
}

const char * name_of(const ggml_tensor * tensor) { return reinterpret_cast<const char *>(tensor) + layout()->name; }

void read_shape(const ggml_tensor * tensor, int64_t * shape) {
    memcpy(shape, reinterpret_cast<const char *>(tensor) + layout()->ne, 32);
    memcpy(shape + 4, reinterpret_cast<const char *>(tensor) + layout()->nb, 32);
}

bool is_same(const Seen & seen, const ggml_tensor * tensor) {
    int64_t shape[8];
    read_shape(tensor, shape);
    return memcmp(seen.shape, shape, sizeof shape) == 0 && strncmp(seen.name, name_of(tensor), name_bytes) == 0;
}

int64_t root_id_of(const ggml_tensor * tensor) {
    const ggml_tensor * root = root_of(tensor);
    return root == tensor ? -1 : tensor_of(root);
}

// Made anew as what it was, and where it was: what llama.cpp does for most of a graph, every time it builds one.
bool is_again(const Seen & seen, const ggml_tensor * tensor) {
    return seen.made && seen.type == field<int>(tensor, layout()->type) && seen.root == root_id_of(tensor);
}

std::string flags_of(const ggml_tensor * tensor) {
    uint32_t flags = field<uint32_t>(tensor, layout()->flags);
    std::string list;
    if (flags & layout()->input_bit) list += "\"input\"";
    if (flags & layout()->output_bit) list += list.empty() ? "\"output\"" : ",\"output\"";
    return list;
}

int64_t offset_of(const Buffer * buffer, const char * data) {
    return buffer == nullptr || buffer->base == nullptr ? 0 : data - buffer->base;
}

void define(const ggml_tensor * tensor, const Seen & seen, const Buffer * buffer) {
    Row row("tensor");
    row->number("id", seen.id).text("name", std::string_view(seen.name, strnlen(seen.name, name_bytes)));
    if (buffer != nullptr) row->number("buffer", buffer->id).number("offset", offset_of(buffer, seen.data));
    row->number("size", int64_t(real::ggml_nbytes(tensor)));
    if (seen.root >= 0) row->number("view_of", seen.root);
    if (std::string flags = flags_of(tensor); !flags.empty()) row->raw("flags", "[" + flags + "]");
    row->text("type", real::ggml_type_name(field<int>(tensor, layout()->type)));
    std::string list;
    auto as_it_is = [](int64_t number) { return number; };
    append_list(list, seen.shape, seen.shape + 4, as_it_is);
    row->raw("ne", list);
    list.clear();
    append_list(list, seen.shape + 4, seen.shape + 8, as_it_is);
    row->raw("nb", list);
    row.define();
}

std::string key_of(const Seen & seen, int64_t offset) {
    int64_t numbers[] = {seen.buffer_id, offset, seen.root, seen.type};
    std::string key(reinterpret_cast<const char *>(numbers), sizeof numbers);
    key.append(reinterpret_cast<const char *>(seen.shape), sizeof seen.shape);
    key.append(seen.name, strnlen(seen.name, name_bytes));
    return key;
}

// A place that is not dense, as rows: how many, how long, how far apart. False where that cannot say it.
bool as_rows(const ggml_tensor * tensor, int64_t & size, int64_t & rows, int64_t & stride) {
    int64_t shape[8];
    read_shape(tensor, shape);
    int type = field<int>(tensor, layout()->type);
    int64_t unit = int64_t(real::ggml_type_size(type));
    int64_t block = real::ggml_blck_size(type);
    int64_t ne[4] = {shape[0] / block, shape[1], shape[2], shape[3]};
    int order[4] = {0, 1, 2, 3};
    for (int i = 0; i < 4; i++) {
        for (int j = i + 1; j < 4; j++) {
            if (shape[4 + order[j]] < shape[4 + order[i]]) std::swap(order[i], order[j]);
        }
    }
    size = unit, rows = 1, stride = 0;
    for (int dimension : order) {
        int64_t count = ne[dimension], step = shape[4 + dimension];
        if (count <= 1) continue;
        if (rows == 1 && step == size) {
            size *= count;
        } else if (rows == 1 && step > size) {
            rows = count, stride = step;
        } else if (rows > 1 && step == rows * stride) {
            rows *= count;
        } else {
            return false;
        }
    }
    return true;
}

}  // namespace

TensorPlace place_of(const ggml_tensor * tensor) {
    auto * holder = field<const ggml_tensor *>(tensor, layout()->view_src);
    if (holder == nullptr) holder = tensor;
    return {field<ggml_backend_buffer *>(holder, layout()->buffer), field<char *>(tensor, layout()->data)};
}

const ggml_tensor * root_of(const ggml_tensor * tensor) {
    while (auto * next = field<const ggml_tensor *>(tensor, layout()->view_src)) tensor = next;
    return tensor;
}

int64_t tensor_of(const ggml_tensor * tensor) {
    TensorPlace place = place_of(tensor);
    const Buffer * buffer = buffer_of(place.buffer);
    int64_t buffer_id = buffer == nullptr ? -1 : buffer->id;
    auto at = all().seen.find(tensor);
    Seen * before = at != all().seen.end() && is_same(at->second, tensor) ? &at->second : nullptr;
    if (before != nullptr && before->data == place.data && before->buffer_id == buffer_id) {
        if (is_again(*before, tensor)) before->made = false;
        if (!before->made) return before->id;
    }
    bool moved = before != nullptr && !before->made;

    Seen now{};
    now.data = place.data, now.buffer_id = buffer_id;
    now.root = root_id_of(tensor), now.type = field<int>(tensor, layout()->type);
    memcpy(now.name, name_of(tensor), strnlen(name_of(tensor), name_bytes));
    read_shape(tensor, now.shape);
    std::string key = key_of(now, offset_of(buffer, place.data));
    auto known = all().ids.find(key);
    if (moved) {
        // The same tensor, its pointer changed by no allocation: the program re-pointed it.
        now.id = before->id;
        all().ids.erase(all().keys[size_t(now.id)]);
        all().ids[key] = now.id;
        all().keys[size_t(now.id)] = key;
        define(tensor, now, buffer);
    } else if (known != all().ids.end()) {
        now.id = known->second;
    } else {
        now.id = int64_t(all().keys.size());
        all().keys.push_back(key);
        all().ids[key] = now.id;
        define(tensor, now, buffer);
    }
    all().seen[tensor] = now;
    return now.id;
}

void tensor_made(const ggml_tensor * tensor) {
    auto at = all().seen.find(tensor);
    if (at != all().seen.end()) at->second.made = true;
}

void append_range(std::string & out, const ggml_tensor * tensor, int64_t id, bool approx) {
    int64_t size, rows, stride;
    Json range(out);
    range.number("tensor", id);
    if (!as_rows(tensor, size, rows, stride)) {
        approx = true;
    } else if (rows > 1) {
        range.number("size", size).number("rows", rows).number("stride", stride);
    }
    if (approx) range.flag("approx", true);
    range.close();
}

void forget_lives() {
    all() = Tensors{};
    forget_buffers();
    forget_queues();
    forget_graphs();
    forget_schedulers();
    forget_plans();
    forget_meta();
}

}  // namespace hbt
