// A small program as users have them: a prompt in one llama_decode, then greedy tokens. Prints the tokens and a hash
// of all logits; with REPEATS its times, too. Environment: LIBS (folder of the backends), PLUGIN, MODEL, PROMPT,
// UBATCH, DECODE, LAYERS (offloaded), REPEATS, THREADS, FLASH, CALLBACK (which looks at each node).
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "llama_facts.hpp"

namespace {

int number(const char * name, int otherwise) {
    const char * text = std::getenv(name);
    return text == nullptr ? otherwise : std::atoi(text);
}

double clock_ms(clockid_t which) {
    timespec time{};
    clock_gettime(which, &time);
    return double(time.tv_sec) * 1e3 + double(time.tv_nsec) / 1e6;
}

struct Watch {
    double wall = clock_ms(CLOCK_MONOTONIC), cpu = clock_ms(CLOCK_PROCESS_CPUTIME_ID);
    void lap(const char * what) {
        double now = clock_ms(CLOCK_MONOTONIC), used = clock_ms(CLOCK_PROCESS_CPUTIME_ID);
        if (std::getenv("REPEATS")) std::fprintf(stderr, "%s %.4f ms, cpu %.4f ms\n", what, now - wall, used - cpu);
        wall = now, cpu = used;
    }
};

uint64_t mixed(uint64_t hash, const float * values, int count) {
    auto * bytes = reinterpret_cast<const unsigned char *>(values);
    for (size_t i = 0; i < size_t(count) * sizeof *values; i++) hash = (hash ^ bytes[i]) * 1099511628211ull;
    return hash;
}

std::vector<int32_t> prompt(int count, int vocabulary) {
    std::vector<int32_t> tokens;
    unsigned state = 7;
    for (int i = 0; i < count; i++) {
        state = state * 1103515245 + 12345;
        tokens.push_back(int32_t(3 + (state >> 16) % unsigned(vocabulary - 3)));
    }
    return tokens;
}

int run(llama_context * context, int vocabulary) {
    std::vector<int32_t> tokens = prompt(number("PROMPT", 200), vocabulary);
    Watch watch;
    if (llama_decode(context, llama_batch_get_one(tokens.data(), int32_t(tokens.size()))) != 0) return 1;
    llama_synchronize(context);
    watch.lap("prefill");
    uint64_t hash = 14695981039346656037ull;
    for (int i = 0; i < number("DECODE", 16); i++) {
        const float * logits = llama_get_logits_ith(context, -1);
        hash = mixed(hash, logits, vocabulary);
        int32_t best = 0;
        for (int32_t k = 1; k < vocabulary; k++) {
            if (logits[k] > logits[best]) best = k;
        }
        std::printf("%d ", best);
        if (llama_decode(context, llama_batch_get_one(&best, 1)) != 0) return 1;
    }
    llama_synchronize(context);
    watch.lap("decode");
    std::printf("%016llx\n", static_cast<unsigned long long>(hash));
    return 0;
}

bool look(void *, bool, void *) { return true; }

void log_errors(int level, const char * text, void *) {
    if (level == 4) std::fputs(text, stderr);
}

}  // namespace

int main() {
    llama_log_set(log_errors, nullptr);
    ggml_backend_load_all_from_path(std::getenv("LIBS"));
    if (const char * plugin = std::getenv("PLUGIN")) {
        if (ggml_backend_load(plugin) == nullptr) return 3;
    }
    llama_backend_init();
    auto model_parameters = llama_model_default_params();
    model_parameters.gpu_layers = number("LAYERS", 0);
    auto * model = llama_model_load_from_file(std::getenv("MODEL"), model_parameters);
    if (model == nullptr) return 4;
    auto parameters = llama_context_default_params();
    parameters.context = parameters.batch = uint32_t(number("CONTEXT", 512));
    parameters.ubatch = uint32_t(number("UBATCH", 32));
    parameters.threads = parameters.batch_threads = number("THREADS", 1);
    parameters.flash_attention = number("FLASH", 0);
    parameters.no_perf = true;
    if (number("CALLBACK", 0) != 0) parameters.callback = reinterpret_cast<void *>(look);
    auto * context = llama_init_from_model(model, parameters);
    if (context == nullptr) return 5;
    int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
    int status = 0;
    for (int i = 0; i < number("REPEATS", 1) && status == 0; i++) {
        llama_memory_clear(llama_get_memory(context), true);
        status = run(context, vocabulary);
    }
    llama_free(context);
    llama_model_free(model);
    return status;
}
