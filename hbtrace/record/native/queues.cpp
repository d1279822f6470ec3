// Backend instances and events by life, with what a device says of itself and what only its sources tell.
#include <stdlib.h>
#include <string.h>

#include <set>
#include <unordered_map>

#include "call.hpp"
#include "lives.hpp"
#include "probe.hpp"
#include "real.hpp"
#include "vtable.hpp"

namespace hbt {

namespace {

struct Facts {  // of one registry name; from the launcher's table
    CopyRule copy;
    std::string drains;  // a JSON list
};

struct Queue {
    int64_t id;
    const CopyRule * copy;
};

struct Queues {
    std::set<std::string> told;  // registries that `untold_registry` has answered with
    std::unordered_map<ggml_backend *, Queue> known;
    std::unordered_map<ggml_backend_event *, int64_t> events;
    int64_t next = 0, next_event = 0;
};

Queues & all() {
    static Queues * queues = new Queues;
    return *queues;
}

// `NAME runs_on after_dst drains`, one a line: what the launcher hands over.
std::map<std::string, Facts> parse_facts() {
    std::map<std::string, Facts> table;
    const char * text = getenv("HBTRACE_RECORD_FACTS");
    std::string rest = text == nullptr ? "" : text;
    for (size_t at = 0; at < rest.size();) {
        size_t end = rest.find('\n', at);
        if (end == std::string::npos) end = rest.size();
        std::string line = rest.substr(at, end - at);
        at = end + 1;
        std::vector<std::string> words;
        for (size_t i = 0; i < line.size();) {
            size_t tab = line.find('\t', i);
            if (tab == std::string::npos) tab = line.size();
            words.push_back(line.substr(i, tab - i));
            i = tab + 1;
        }
        if (words.size() < 3) continue;
        Facts & facts = table[words[0]];
        facts.copy.runs_on = words[1];
        facts.copy.after_dst = words[2] == "1";
        if (words.size() > 3) facts.drains = words[3];  // an empty last word is none
    }
    return table;
}

const char * registry_of(ggml_backend_device * device) {
    if (device == nullptr || !real::ggml_backend_dev_backend_reg) return "";
    auto * registry = real::ggml_backend_dev_backend_reg(device);
    const char * name = registry != nullptr ? real::ggml_backend_reg_name(registry) : nullptr;
    return name != nullptr ? name : "";
}

ggml_backend_device * device_of(ggml_backend * backend) {
    return real::ggml_backend_get_device ? real::ggml_backend_get_device(backend) : nullptr;
}

const Facts & facts_of(ggml_backend_device * device) {
    static auto * table = new std::map<std::string, Facts>(parse_facts());
    static auto * none = new Facts;
    auto at = table->find(registry_of(device));
    return at == table->end() ? *none : at->second;
}

const char * type_name(int type) {
    static const char * const names[] = {"cpu", "gpu", "igpu", "accel"};
    static const char * const before_igpu[] = {"cpu", "gpu", "accel"};
    if (type < 0 || type > 3 || capabilities_offset() < 0) return nullptr;
    // Integrated GPUs got a type of their own together with a device's id, which moved the capabilities.
    bool old = capabilities_offset() < 48;
    if (old && type == 3) return nullptr;
    return old ? before_igpu[type] : names[type];
}

std::string accepted(ggml_backend_device * device) {
    std::string list = "[";
    std::vector<std::string> seen;
    auto add = [&](ggml_backend_buffer_type * type) {
        if (type == nullptr || !real::ggml_backend_dev_supports_buft(device, type)) return;
        std::string name = real::ggml_backend_buft_name(type);
        for (const std::string & other : seen) {
            if (other == name) return;
        }
        seen.push_back(name);
        if (list.size() > 1) list += ',';
        append_text(list, name);
    };
    add(real::ggml_backend_dev_buffer_type(device));
    add(real::ggml_backend_dev_host_buffer_type(device));
    add(real::ggml_backend_cpu_buffer_type());
    // What other devices have in host memory: the CPU computes on it, and an integrated device may.
    size_t devices = real::ggml_backend_dev_count && real::ggml_backend_dev_get ? real::ggml_backend_dev_count() : 0;
    for (size_t i = 0; i < devices; i++) {
        auto * other = real::ggml_backend_dev_get(i);
        add(real::ggml_backend_dev_host_buffer_type(other));
    }
    return list + "]";
}

void describe_device(Row & row, ggml_backend_device * device) {
    row->text("device", real::ggml_backend_dev_name(device)).text("registry", registry_of(device));
    const char * type = type_name(real::ggml_backend_dev_type(device));
    if (type != nullptr) row->text("type", type).flag("integrated", strcmp(type, "igpu") == 0);
    if (int at = capabilities_offset(); at > 0) {
        unsigned char properties[256] = {};
        real::ggml_backend_dev_get_props(device, properties);
        row->flag("async", properties[at] != 0).flag("host_buffer", properties[at + 1] != 0);
        row->flag("events", properties[at + 3] != 0);
    }
    row->raw("accepts", accepted(device));
}

Queue define(ggml_backend * backend) {
    Queue queue{};
    queue.id = all().next++;
    auto * device = device_of(backend);
    const Facts & facts = facts_of(device);
    queue.copy = &facts.copy;
    Row row("backend");
    row->number("id", queue.id).text("name", real::ggml_backend_name(backend));
    if (device != nullptr) describe_device(row, device);
    // Without that slot there is nothing to wait for: every call returns when its work is done.
    row->flag("synchronous", !has_slot(backend, layout()->synchronize));
    if (!facts.drains.empty()) row->raw("drains", facts.drains);
    row.define();
    return queue;
}

const Queue & queue_of(ggml_backend * backend) {
    auto at = all().known.find(backend);
    if (at != all().known.end()) return at->second;
    patch(backend);  // here, as a backend's own function may have made it, which nobody sees
    Queue queue = define(backend);
    return all().known[backend] = queue;
}

}  // namespace

bool has_slot(ggml_backend * backend, int slot) {
    return slot >= 0 && reinterpret_cast<void **>(backend)[slot] != nullptr;
}

int64_t backend_of(ggml_backend * backend) { return backend == nullptr ? -1 : queue_of(backend).id; }

const CopyRule & copy_rule(ggml_backend * backend) { return *queue_of(backend).copy; }

std::string untold_registry(ggml_backend * backend) {
    std::string name = registry_of(device_of(backend));
    return all().told.insert(name).second ? name : "";
}

bool backend_died(ggml_backend * backend, int64_t & id) {
    auto at = all().known.find(backend);
    if (at == all().known.end()) return false;
    id = at->second.id;
    all().known.erase(at);
    return true;
}

int64_t event_of(ggml_backend_event * event) {
    auto [at, fresh] = all().events.try_emplace(event, all().next_event);
    if (fresh) all().next_event++;
    return at->second;
}

void event_died(ggml_backend_event * event) { all().events.erase(event); }

void forget_queues() { all() = Queues{}; }

}  // namespace hbt
