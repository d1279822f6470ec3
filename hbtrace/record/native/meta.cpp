#include "meta.hpp"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "call.hpp"
#include "probe.hpp"
#include "real.hpp"

extern char ** environ;

namespace hbt {

namespace {

bool begun = false;

std::string command_line() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(file)), {});
    std::string list = "[";
    for (size_t at = 0; at < bytes.size();) {
        size_t end = bytes.find('\0', at);
        if (end == std::string::npos) end = bytes.size();
        if (at > 0) list += ',';
        append_text(list, std::string_view(bytes).substr(at, end - at));
        at = end + 1;
    }
    return list + "]";
}

// What steers a backend and may explain a run; nothing else of the environment is anybody's business.
std::string environment() {
    static const char * const prefixes[] = {"GGML_", "LLAMA_", "CUDA_", "HIP_", "ROCR_", "HSA_", "VK_", "MESA_"};
    std::string object;
    Json json(object);
    for (char ** entry = environ; *entry != nullptr; entry++) {
        const char * equals = strchr(*entry, '=');
        if (equals == nullptr) continue;
        for (const char * prefix : prefixes) {
            if (strncmp(*entry, prefix, strlen(prefix)) != 0) continue;
            json.text(std::string(*entry, size_t(equals - *entry)).c_str(), equals + 1);
            break;
        }
    }
    json.close();
    return object;
}

// To the microsecond: a process that runs itself anew does so within a second, and both write a trace.
std::string date() {
    char text[40], fraction[12];
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    struct tm parts {};
    gmtime_r(&now.tv_sec, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(fraction, sizeof fraction, ".%06dZ", int(now.tv_nsec / 1000));
    return std::string(text) + fraction;
}

std::string engine_version() {
    std::string version;
    if (real::ggml_version) version = std::string("ggml ") + real::ggml_version();
    if (real::ggml_commit) version += std::string(" ") + real::ggml_commit();
    return version;
}

std::string notes_of(bool readable) {
    if (!readable) {
        return std::string("nothing is recorded: this build of ggml is not understood, the probe did not find ") +
               probe_failure();
    }
    const char * span = getenv("HBTRACE_RECORD_UBATCHES");
    return span == nullptr ? "" : std::string("only ubatches ") + span + " are recorded";
}

void write_meta_row(bool readable) {
    Row row("meta");
    row->number("version", 1).text("producer", "hbtrace record");
    row->text("engine", real::llama_print_system_info ? "llama.cpp" : "ggml");
    std::string version = engine_version();
    if (!version.empty()) row->text("engine_version", version);
    row->raw("command", command_line()).raw("env", environment()).text("started_at", date()).text("threads", "one");
    row->number("x_pid", getpid());
    std::string notes = notes_of(readable);
    if (!notes.empty()) row->text("notes", notes);
    row.define();
}

}  // namespace

bool begin_trace() {
    bool readable = layout() != nullptr;
    if (!begun) {
        begun = true;
        write_meta_row(readable);
    }
    return readable;
}

void forget_meta() { begun = false; }

}  // namespace hbt
