// A program that stores into the memory of its input from another thread while it sets it, outside of any call that
// sets inputs, and that has a handler of its own for faults: both threads also touch a page that it opens.
// Adds an input of ones to a sum on the device, ROUNDS times; prints the sum. A fault that is neither's ends it with 3.
// With ENDS there is no other thread, and it ends while it sets its input: by a fault of its own (`fault`), by a signal
// (`sent`), both without its handler, by a fault that its handler gets (`handled`), or by one behind a handler that it
// puts in later and that calls the one before (`chained`).
// Environment: LIBS, PLUGIN, ROUNDS, ENDS.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "fork_stub.hpp"

namespace {

constexpr size_t page = 4096;
char * guarded;
Tensor * input;
const char * ends;
std::atomic<bool> stop{false};
std::atomic<int> opened{0};

struct sigaction before {};

bool is(const char * end) { return ends != nullptr && std::strcmp(ends, end) == 0; }

void handle(void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction action {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = handler;
    sigaction(SIGSEGV, &action, &before);
}

void call_before(int signal, siginfo_t * info, void * context) { before.sa_sigaction(signal, info, context); }

void on_fault(int, siginfo_t * info, void *) {
    auto * address = static_cast<char *>(info->si_addr);
    if (address < guarded || address >= guarded + page) _exit(3);
    mprotect(guarded, page, PROT_READ | PROT_WRITE);
    opened++;
}

void touch() {
    mprotect(guarded, page, PROT_NONE);
    *static_cast<volatile char *>(guarded) = 1;
}

void stray(volatile char * beside) {
    for (unsigned i = 0; !stop; i++) {
        *beside = char(i);
        if (i % 16 == 0) touch();
    }
}

}  // namespace

__attribute__((visibility("default"))) void fork_write(const llama_ubatch * ubatch) {
    for (int i = 0; i < 16; i++) {
        static_cast<volatile float *>(input->data)[i] = ubatch->value;
        if (i == 8 && ends == nullptr) touch();
    }
    if (ends == nullptr || (is("chained") && before.sa_sigaction == nullptr)) return;
    if (is("sent")) raise(SIGSEGV);
    *reinterpret_cast<volatile char *>(16) = 1;
}

int main() {
    ends = std::getenv("ENDS");
    guarded = static_cast<char *>(mmap(nullptr, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (ends == nullptr || is("handled")) handle(on_fault);

    Context * context = ggml_init({1 << 20, nullptr, true});
    Device * device = test_device();
    Backend * queues[] = {
        ggml_backend_dev_init(device, nullptr),
        ggml_backend_dev_init(ggml_backend_dev_by_type(type_cpu), nullptr),
    };
    Scheduler * scheduler = ggml_backend_sched_new(queues, nullptr, 2, 64, false, false);
    input = placed(context, "input", ggml_backend_dev_host_buffer_type(device));
    ggml_set_input(input);
    Tensor * sum = placed(context, "sum", ggml_backend_dev_buffer_type(device));
    ggml_backend_tensor_memset(sum, 0, 0, ggml_nbytes(sum));
    Graph * graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, ggml_add_inplace(context, sum, input));
    if (!ggml_backend_sched_alloc_graph(scheduler, graph)) return 1;

    std::thread other;
    if (ends == nullptr) other = std::thread(stray, static_cast<char *>(input->data) + page / 2);
    llm_graph_result result;
    llama_ubatch ubatch{1};
    int rounds = std::atoi(std::getenv("ROUNDS"));
    for (int i = 0; i < rounds; i++) {
        result.set_inputs(&ubatch);
        ggml_backend_sched_graph_compute_async(scheduler, graph);
        ggml_backend_sched_synchronize(scheduler);
        if (is("chained")) handle(call_before);
    }
    stop = true;
    other.join();
    float total = 0;
    ggml_backend_tensor_get(sum, &total, 0, sizeof total);
    std::printf("%g %s\n", double(total), opened > 0 ? "opened" : "never opened");
}
