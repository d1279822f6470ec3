// A backend plugin to race against on any machine: devices that compute on a worker thread with the CPU backend's
// code, while the host runs ahead. Environment variables choose what they act like:
//   HBTEST_TYPE=gpu      a GPU with memory of its own (default: an integrated one)
//   HBTEST_DISCRETE=1    does not compute on its host buffer: inputs are copied
//   HBTEST_SYNC=1        complete when a call returns, and says so (no synchronize, no asynchronous capability)
//   HBTEST_DEVICES=2     two devices
//   HBTEST_COPY=src|dst  the queue that runs the copy between two devices (default: src)
//   HBTEST_ORDERED=1     with src: the copy waits for the destination's earlier work
//   HBTEST_HOLD=1        a graph begins only when the next one is issued or somebody waits, or after a time limit: what
//                        the host overwrites in between is overwritten for sure
//   HBTEST_DELAY=US      sleep before each graph
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

#include <unistd.h>

#include "ggml_facts.hpp"
#include "queue.hpp"

namespace {

extern Device devices[2];

bool set(const char * name) { return std::getenv(name) != nullptr; }
bool is_synchronous() { return set("HBTEST_SYNC"); }
bool is_held() { return set("HBTEST_HOLD"); }
bool is_discrete() { return set("HBTEST_DISCRETE"); }
bool copies_on_dst() {
    const char * where = std::getenv("HBTEST_COPY");
    return where != nullptr && std::strcmp(where, "dst") == 0;
}

size_t index_of(const Device * device) { return size_t(device - devices); }
Device * cpu_device() { return ggml_backend_dev_by_type(type_cpu); }

// ---- memory: both kinds are plain, but the device's says that it is none of the host's

void buffer_free(Buffer * buffer) { std::free(buffer->context); }
void * buffer_base(Buffer * buffer) { return buffer->context; }
char * at(const Tensor * tensor, size_t offset) { return static_cast<char *>(tensor->data) + offset; }
void buffer_memset(Buffer *, Tensor * tensor, uint8_t value, size_t offset, size_t size) {
    std::memset(at(tensor, offset), value, size);
}
void buffer_set(Buffer *, Tensor * tensor, const void * data, size_t offset, size_t size) {
    std::memcpy(at(tensor, offset), data, size);
}
void buffer_get(Buffer *, const Tensor * tensor, void * data, size_t offset, size_t size) {
    std::memcpy(data, at(tensor, offset), size);
}
void buffer_clear(Buffer * buffer, uint8_t value) { std::memset(buffer->context, value, buffer->size); }

BufferTable make_buffer_table() {
    BufferTable table{};
    table.free = buffer_free;
    table.base = buffer_base;
    table.memset_tensor = buffer_memset;
    table.set_tensor = buffer_set;
    table.get_tensor = buffer_get;
    table.clear = buffer_clear;
    return table;
}

const char * device_memory_name(BufferType * type) { return index_of(type->device) == 0 ? "TEST0" : "TEST1"; }
const char * host_memory_name(BufferType *) { return "TEST_Host"; }
Buffer * allocate(BufferType * type, size_t size) {
    void * memory = nullptr;
    // A page more: the exact mode protects whole pages, and nothing else should be on them.
    if (posix_memalign(&memory, 4096, (size + 8191) & ~size_t(4095)) != 0) return nullptr;
    return ggml_backend_buffer_init(type, make_buffer_table(), memory, size);
}
size_t alignment(BufferType *) { return 128; }
bool yes(BufferType *) { return true; }
bool no(BufferType *) { return false; }

BufferType device_memory[2] = {
    {{device_memory_name, allocate, alignment, nullptr, nullptr, no}, &devices[0], nullptr},
    {{device_memory_name, allocate, alignment, nullptr, nullptr, no}, &devices[1], nullptr},
};
BufferType host_memory = {{host_memory_name, allocate, alignment, nullptr, nullptr, yes}, &devices[0], nullptr};

// ---- a queue

struct Context {
    Queue queue;
    Backend * cpu = nullptr;
};
Queue & queue_of(Backend * backend) { return static_cast<Context *>(backend->context)->queue; }

struct EventContext {
    Queue * queue = nullptr;
    uint64_t number = 0;
};
EventContext & context_of(Event * event) { return *static_cast<EventContext *>(event->context); }

const char * backend_name(Backend * backend) { return index_of(backend->device) == 0 ? "TEST0" : "TEST1"; }

void backend_free(Backend * backend) {
    auto * context = static_cast<Context *>(backend->context);
    context->queue.drain();
    ggml_backend_free(context->cpu);
    delete context;
    delete backend;
}

void synchronize(Backend * backend) { queue_of(backend).drain(); }

void set_async(Backend * backend, Tensor * tensor, const void * data, size_t offset, size_t size) {
    char * to = at(tensor, offset);
    queue_of(backend).push([=] { std::memcpy(to, data, size); });
}

void get_async(Backend * backend, const Tensor * tensor, void * data, size_t offset, size_t size) {
    const char * from = at(tensor, offset);
    queue_of(backend).push([=] { std::memcpy(data, from, size); });
}

bool copy_async(Backend * from, Backend * to, const Tensor * src, Tensor * dst) {
    if (from->table.free != backend_free || to->table.free != backend_free) return false;
    Queue * source = &queue_of(from);
    Queue * destination = &queue_of(to);
    auto copy = [data = src->data, place = dst->data, size = ggml_nbytes(src)] { std::memcpy(place, data, size); };
    if (source == destination) {
        source->push(copy);
    } else if (copies_on_dst()) {
        uint64_t before = source->last();
        destination->push([=] { source->wait(before); copy(); });
    } else {
        uint64_t earlier = set("HBTEST_ORDERED") ? destination->last() : 0;
        uint64_t done = source->push([=] { destination->wait(earlier); copy(); });
        destination->push([=] { source->wait(done); });
    }
    return true;
}

void event_record(Backend * backend, Event * event) {
    context_of(event) = {&queue_of(backend), queue_of(backend).push([] {})};
}

void event_wait(Backend * backend, Event * event) {
    EventContext what = context_of(event);
    if (what.queue != nullptr && what.queue != &queue_of(backend)) {
        queue_of(backend).push([=] { what.queue->wait(what.number); });
    }
}

// ---- graphs: the structs are copied, as a real device has its arguments from the moment of issue

struct Job {
    std::vector<Tensor> tensors;
    std::vector<Tensor *> nodes;
    std::unordered_map<const Tensor *, size_t> index;
    uint32_t used[4] = {};
    Tensor * keys[4] = {};
    int32_t uses[4] = {};
    Graph graph{};
};

void collect(Job & job, std::vector<const Tensor *> & order, const Tensor * tensor) {
    if (tensor != nullptr && job.index.emplace(tensor, order.size()).second) order.push_back(tensor);
}

std::shared_ptr<Job> copy_of(const Graph & graph) {
    auto job = std::make_shared<Job>();
    std::vector<const Tensor *> order;
    for (int i = 0; i < graph.nodes_used; i++) {
        collect(*job, order, graph.nodes[i]);
        for (Tensor * source : graph.nodes[i]->src) collect(*job, order, source);
    }
    for (size_t i = 0; i < order.size(); i++) collect(*job, order, order[i]->view_src);
    for (const Tensor * tensor : order) job->tensors.push_back(*tensor);
    auto moved = [&](Tensor * tensor) -> Tensor * {
        auto known = job->index.find(tensor);
        return known == job->index.end() ? nullptr : &job->tensors[known->second];
    };
    for (Tensor & tensor : job->tensors) {
        for (Tensor *& source : tensor.src) source = moved(source);
        tensor.view_src = moved(tensor.view_src);
    }
    for (int i = 0; i < graph.nodes_used; i++) job->nodes.push_back(moved(graph.nodes[i]));
    job->graph.size = job->graph.nodes_used = graph.nodes_used;
    job->graph.nodes = job->nodes.data();
    job->graph.uses = job->uses;
    job->graph.visited = {1, job->used, job->keys};
    return job;
}

int compute(Backend * backend, Graph * graph) {
    auto * context = static_cast<Context *>(backend->context);
    auto job = copy_of(*graph);
    const char * delay = std::getenv("HBTEST_DELAY");
    int microseconds = delay == nullptr ? 0 : std::atoi(delay);
    // Held: the one before runs now, when all inputs of this one are written, and alone.
    if (is_held()) context->queue.drain();
    context->queue.push(
        [=] {
            if (microseconds > 0) usleep(unsigned(microseconds));
            context->cpu->table.compute(context->cpu, &job->graph);
        },
        is_held()
    );
    if (is_synchronous()) context->queue.drain();
    return 0;
}

Backend * backend_init(Device * device, const char *) {
    static const uint8_t guid[16] = {0x68, 0x62, 0x74, 0x65, 0x73, 0x74};
    auto * context = new Context;
    context->cpu = ggml_backend_dev_init(cpu_device(), nullptr);
    void * threads = ggml_backend_reg_get_proc_address(
        ggml_backend_dev_backend_reg(cpu_device()), "ggml_backend_set_n_threads"
    );
    reinterpret_cast<void (*)(Backend *, int)>(threads)(context->cpu, 1);
    auto * backend = new Backend{guid, {}, device, context};
    BackendTable & table = backend->table;
    table.name = backend_name;
    table.free = backend_free;
    table.compute = compute;
    if (is_synchronous()) return backend;
    table.set_async = set_async;
    table.get_async = get_async;
    table.copy_async = copy_async;
    table.synchronize = synchronize;
    table.event_record = event_record;
    table.event_wait = event_wait;
    return backend;
}

// ---- devices

const char * device_name(Device * device) { return index_of(device) == 0 ? "TEST0" : "TEST1"; }
const char * description(Device *) { return "a device of hbtrace's tests"; }
void memory(Device *, size_t * free, size_t * total) { *free = *total = size_t(4) << 30; }
int device_type(Device *) {
    const char * type = std::getenv("HBTEST_TYPE");
    return type != nullptr && std::strcmp(type, "gpu") == 0 ? type_gpu : type_igpu;
}
void properties(Device * device, Properties * out) {
    *out = {};
    out->name = device_name(device);
    out->description = description(device);
    memory(device, &out->memory_free, &out->memory_total);
    out->type = device_type(device);
    out->async = out->events = !is_synchronous();
    out->host_buffer = true;
}
BufferType * buffer_type(Device * device) { return &device_memory[index_of(device)]; }
BufferType * host_buffer_type(Device *) { return &host_memory; }
bool supports_op(Device *, const Tensor * op) { return ggml_backend_dev_supports_op(cpu_device(), op); }
bool supports_buffer_type(Device * device, BufferType * type) {
    return type == buffer_type(device) || (type == &host_memory && !is_discrete());
}
bool offload_op(Device *, const Tensor *) { return false; }
Event * event_new(Device * device) { return is_synchronous() ? nullptr : new Event{device, new EventContext}; }
void event_free(Device *, Event * event) {
    delete &context_of(event);
    delete event;
}
void event_synchronize(Device *, Event * event) {
    EventContext what = context_of(event);
    if (what.queue != nullptr) what.queue->wait(what.number);
}

const char * registry_name(Registry *) { return "HBTEST"; }
size_t device_count(Registry *) {
    const char * count = std::getenv("HBTEST_DEVICES");
    return count == nullptr ? 1 : size_t(std::atoi(count));
}
Device * device_at(Registry *, size_t index) { return &devices[index]; }
void * address(Registry *, const char *) { return nullptr; }

Registry registry = {HBTEST_INTERFACE, {registry_name, device_count, device_at, address}, nullptr};

#define DEVICE                                                                                                        \
    {                                                                                                                 \
        {device_name, description, memory, device_type, properties, backend_init, buffer_type, host_buffer_type,      \
         nullptr, supports_op, supports_buffer_type, offload_op, event_new, event_free, event_synchronize},           \
            &registry, nullptr                                                                                        \
    }
Device devices[2] = {DEVICE, DEVICE};

}  // namespace

extern "C" __attribute__((visibility("default"))) Registry * ggml_backend_init() { return &registry; }
