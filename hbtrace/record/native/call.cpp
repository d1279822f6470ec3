#include "call.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <unordered_map>

#include "exact.hpp"
#include "lives.hpp"
#include "meta.hpp"
#include "probe.hpp"
#include "scheduler.hpp"

namespace hbt {

thread_local Thread thread;

namespace {

struct Span {
    int64_t first = 0, last = -1;
    bool set = false;
};

Span span_from_environment() {
    Span span;
    const char * text = getenv("HBTRACE_RECORD_UBATCHES");
    if (text == nullptr) return span;
    char * end = nullptr;
    span.first = strtoll(text, &end, 10);
    span.last = *end == '-' ? strtoll(end + 1, nullptr, 10) : span.first;
    span.set = true;
    return span;
}

std::atomic<int> threads{0};  // that have been seen

// A fork's child is a process of its own with a trace of its own: everything is defined anew when it is seen.
void in_child() {
    spool::forget();
    forget_lives();
    exact::forget();
    spool::lock().unlock();
    threads = 0;
    thread.number = -1;
    thread.ubatch = -1;
}

bool watch_forks() {
    pthread_atfork([] { spool::lock().lock(); }, [] { spool::lock().unlock(); }, in_child);
    return true;
}

struct Callers {
    std::unordered_map<const void *, std::string> sites;
    std::unordered_map<const void *, bool> ggml;
};

Callers & callers() {
    static Callers * all = new Callers;  // never destroyed: events come until the very end of the process
    return *all;
}

std::string demangled(const char * symbol) {
    int status = 0;
    char * plain = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
    std::string name = status == 0 && plain != nullptr ? plain : symbol;
    free(plain);
    return name;
}

std::string module_of(const Dl_info & info) {
    const char * slash = strrchr(info.dli_fname, '/');
    return slash == nullptr ? info.dli_fname : slash + 1;
}

}  // namespace

Recording::Recording() : held_(spool::lock()) {
    static const bool watched = watch_forks();
    (void) watched;
    if (!spool::open()) return;
    Inside inside;
    on_ = begin_trace();
}

Recording::~Recording() = default;

bool wanted() {
    static const Span span = span_from_environment();
    return !span.set || (thread.ubatch >= span.first && thread.ubatch <= span.last);
}

void leave_ubatch() {
    if (!thread.computing && (thread.scheduler == nullptr || !thread.scheduler->preparing)) thread.ubatch = -1;
}

void split_computes(ggml_backend * backend) {
    if (!thread.computing || !thread.pieces) return;
    if (thread.computed != nullptr && thread.computed != backend) thread.split++;
    thread.computed = backend;
}

void split_copies(const void * caller) {
    if (!thread.computing || thread.computed == nullptr || !in_ggml(caller)) return;
    thread.split++;
    thread.computed = nullptr;
}

void Row::end() {
    json_.close();
    spool::row() += '\n';
    spool::row_done();
}

void Row::happen(const void * caller) {
    if (thread.number < 0) thread.number = threads++;
    if (thread.number > 0) json_.number("thread", thread.number);
    if (thread.split >= 0) json_.number("split", thread.split);
    if (thread.ubatch >= 0) json_.number("ubatch", thread.ubatch);
    json_.number("time", spool::now());
    if (caller != nullptr) json_.raw("site", site(caller));
    end();
}

const std::string & site(const void * caller) {
    auto & sites = callers().sites;
    auto known = sites.find(caller);
    if (known != sites.end()) return known->second;
    Dl_info info{};
    std::string text = "?";
    // One byte back: a call that never returns is the last instruction of its function.
    if (dladdr(static_cast<const char *>(caller) - 1, &info) != 0 && info.dli_fname != nullptr) {
        text = module_of(info);
        if (info.dli_sname != nullptr) text += ":" + demangled(info.dli_sname);
    }
    std::string quoted;
    append_text(quoted, text);
    return sites[caller] = quoted;
}

bool in_ggml(const void * caller) {
    auto & known = callers().ggml;
    auto at = known.find(caller);
    if (at != known.end()) return at->second;
    Dl_info info{};
    bool is = dladdr(caller, &info) != 0 && info.dli_fname != nullptr && module_of(info).find("ggml") != std::string::npos;
    return known[caller] = is;
}

}  // namespace hbt
