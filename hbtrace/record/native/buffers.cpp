// Buffers by life. Defined at birth where a call shows it, else at first sight (a recording that began late).
#include <unordered_map>

#include "lives.hpp"
#include "real.hpp"
#include "call.hpp"
#include "inputs.hpp"

namespace hbt {

namespace {

struct Buffers {
    std::unordered_map<ggml_backend_buffer *, Buffer> known;
    std::map<char *, Buffer> host;  // by base: what a raw pointer may lie in
    int64_t next = 0;
    uint64_t lives = 0;
};

Buffers & all() {
    static Buffers * buffers = new Buffers;
    return *buffers;
}

const char * usage_name(int usage) { return usage == 1 ? "weights" : usage == 2 ? "compute" : "any"; }

void define(ggml_backend_buffer * buffer, const Buffer & what) {
    const char * name = real::ggml_backend_buffer_name(buffer);
    auto * type = real::ggml_backend_buffer_get_type(buffer);
    auto * device = real::ggml_backend_buft_get_device && type ? real::ggml_backend_buft_get_device(type) : nullptr;
    Row row("buffer");
    row->number("id", what.id).text("name", name ? name : "").number("size", int64_t(what.size));
    if (what.host) row->flag("host", true);
    if (device != nullptr) row->text("device", real::ggml_backend_dev_name(device));
    row->text("usage", usage_name(real::ggml_backend_buffer_get_usage(buffer)));
    row.define();
}

}  // namespace

const Buffer * buffer_of(ggml_backend_buffer * buffer) {
    if (buffer == nullptr) return nullptr;
    auto at = all().known.find(buffer);
    if (at != all().known.end()) return &at->second;
    Buffer what{};
    what.id = all().next++;
    what.size = real::ggml_backend_buffer_get_size(buffer);
    what.host = real::ggml_backend_buffer_is_host(buffer);
    // An empty buffer may have no base, and asking is an error then.
    if (what.size > 0 && !is_multiple(buffer)) what.base = static_cast<char *>(real::ggml_backend_buffer_get_base(buffer));
    define(buffer, what);
    if (what.host && what.base != nullptr) all().host[what.base] = what;
    return &(all().known[buffer] = what);
}

bool is_multiple(ggml_backend_buffer * buffer) {
    return real::ggml_backend_buffer_is_multi_buffer && real::ggml_backend_buffer_is_multi_buffer(buffer);
}

bool is_known(ggml_backend_buffer * buffer) { return all().known.count(buffer) != 0; }

uint64_t buffer_lives() { return all().lives; }

void buffer_born(ggml_backend_buffer * buffer) {
    all().lives++;
    auto at = all().known.find(buffer);
    if (at == all().known.end()) return;
    // At a birth: it was freed where nobody sees it, by a backend itself.
    if (at->second.host) forget_contents(at->second.base, at->second.size);
    all().host.erase(at->second.base);
    all().known.erase(at);
}

void buffer_changed(ggml_backend_buffer * buffer) {
    auto at = all().known.find(buffer);
    if (at != all().known.end()) define(buffer, at->second);
}

void buffer_died(ggml_backend_buffer * buffer) { buffer_born(buffer); }

std::string host_range(const void * start, size_t size) {
    std::string json;
    char * wanted = const_cast<char *>(static_cast<const char *>(start));
    auto at = all().host.upper_bound(wanted);
    if (at == all().host.begin()) return json;
    const Buffer & buffer = (--at)->second;
    size_t offset = size_t(wanted - buffer.base);
    if (offset >= buffer.size) return json;
    if (size > buffer.size - offset) size = buffer.size - offset;
    Json(json).number("buffer", buffer.id).number("offset", int64_t(offset)).number("size", int64_t(size)).close();
    return json;
}

std::vector<Buffer> host_buffers() {
    std::vector<Buffer> list;
    for (auto & [base, buffer] : all().host) list.push_back(buffer);
    return list;
}

void forget_buffers() { all() = Buffers{}; }

}  // namespace hbt
