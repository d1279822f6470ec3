// What the driver must know of llama.cpp v0.5.0, declared from facts: the fields of two parameter structs, in order.
#pragma once

#include <cstddef>
#include <cstdint>

struct llama_model;
struct llama_context;
struct llama_vocab;
struct llama_memory;

struct ModelParameters {
    void * devices;
    const void * overrides;
    int32_t gpu_layers;
    int split_mode, load_mode, lazy_mode;
    int32_t main_gpu;
    const float * tensor_split;
    void * progress;
    void * progress_data;
    const void * kv_overrides;
    bool vocab_only, check_tensors, extra_buffer_types, no_host, no_alloc, load_mtp;
};

struct ContextParameters {
    uint32_t context, batch, ubatch, sequences, snapshots, outputs, outputs_each;
    int32_t threads, batch_threads;
    int context_type, rope_scaling, pooling, attention, flash_attention;
    float rope_base, rope_scale, yarn_ext, yarn_attn, yarn_fast, yarn_slow;
    uint32_t yarn_context;
    float defrag;
    void * callback;
    void * callback_data;
    int type_k, type_v;
    void * abort_callback;
    void * abort_data;
    bool embeddings, offload_kqv, no_perf, op_offload, swa_full, kv_unified;
    void * samplers;
    size_t sampler_count;
    llama_context * other;
};

struct Batch {
    int32_t count;
    int32_t * tokens;
    float * embeddings;
    int32_t * positions;
    int32_t * sequence_counts;
    int32_t ** sequences;
    int8_t * outputs;
};

extern "C" {
void ggml_backend_load_all_from_path(const char *);
void * ggml_backend_load(const char *);
void llama_backend_init();
void llama_log_set(void (*)(int, const char *, void *), void *);
ModelParameters llama_model_default_params();
ContextParameters llama_context_default_params();
llama_model * llama_model_load_from_file(const char *, ModelParameters);
llama_context * llama_init_from_model(llama_model *, ContextParameters);
const llama_vocab * llama_model_get_vocab(const llama_model *);
int32_t llama_vocab_n_tokens(const llama_vocab *);
Batch llama_batch_get_one(int32_t *, int32_t);
int32_t llama_decode(llama_context *, Batch);
void llama_synchronize(llama_context *);
float * llama_get_logits_ith(llama_context *, int32_t);
llama_memory * llama_get_memory(const llama_context *);
void llama_memory_clear(llama_memory *, bool);
void llama_free(llama_context *);
void llama_model_free(llama_model *);
}
