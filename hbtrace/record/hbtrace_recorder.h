/* hbtrace_recorder.h: an engine in C or C++ tells what it does, event by event, and a trace comes of it.
 *
 * One file, C99 or C++11, libc and pthreads only. In one source file, before any other #include:
 *
 *     #define HBTRACE_RECORDER_IMPLEMENTATION
 *     #include "hbtrace_recorder.h"
 *
 * and everywhere else only the #include. Then:
 *
 *     char error[256];
 *     hbtrace_recorder *run = hbtrace_open("run.jsonl", 0, error, sizeof error);    NULL: `error` says why
 *     hbtrace_backend(run, 0, "GPU0", NULL, NULL);
 *     hbtrace_buffer(run, 0, "GPU_Host", 64, NULL, NULL);
 *     hbtrace_tensor_keys where = hbtrace_tensor_unset();
 *     where.buffer = 0;
 *     hbtrace_tensor(run, 0, "inp_tokens", &where, NULL);
 *     hbtrace_tensor_set(run, hbtrace_whole(0), NULL);
 *     hbtrace_synchronize(run, 0, NULL);
 *     hbtrace_close(run);
 *
 * A function is an event of the trace format (`hbtrace docs format`), its parameters are the event's keys. What an
 * event can do without is in a struct, for which NULL may stand; begin one with its `..._unset()`. The last parameter
 * is what every event may carry: `thread` and `time` are filled in, or NULL.
 *
 * An event stands where its function is called: call it before the work it tells of, and `synchronize`,
 * `event_synchronize` and `acquire` after. Where other threads record as well, hold `hbtrace_lock` over both.
 *
 * Nothing here ends the program. A function returns HBTRACE_OK; or HBTRACE_INVALID, and then nothing was written and
 * `hbtrace_error` names event and key; or HBTRACE_STOPPED: the trace cannot be written any longer (the disk is full),
 * which standard error was told once. With a NULL recorder every function does nothing and returns HBTRACE_OK.
 *
 * Events are on their way to the disk when the function returns: of a killed process PATH.spool.jsonl is left, which
 * every verb reads. It gets the name PATH on closing. `hbtrace convert run.jsonl run.arrow` makes Arrow of it.
 */
#ifndef HBTRACE_RECORDER_H
#define HBTRACE_RECORDER_H

/* Asks for POSIX where the compiler's mode or the program asks for less. Elsewhere that would hide what is not POSIX,
 * like usleep and M_PI, from the rest of the file. */
#if defined(HBTRACE_RECORDER_IMPLEMENTATION) && (defined(__STRICT_ANSI__) || defined(_XOPEN_SOURCE)) && \
    !defined(_POSIX_C_SOURCE) && !defined(_GNU_SOURCE) && !defined(_DEFAULT_SOURCE) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L
#endif

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hbtrace_recorder hbtrace_recorder;

enum { HBTRACE_OK = 0, HBTRACE_INVALID = -1, HBTRACE_STOPPED = -2 };

/* Options of hbtrace_open. */
enum {
    HBTRACE_FORCE = 1,   /* overwrite what is there, unless a recorder still writes it */
    HBTRACE_NO_TIMES = 2 /* leave `time` out if not given */
};

#define HBTRACE_NONE INT64_MIN /* an integer that is not given */
#define HBTRACE_UNSET (-1)     /* a flag that is not given; else 0 or 1 */

/* Bytes: of a tensor from its start, or of a buffer. Use the functions below. */
typedef struct {
    int64_t tensor, buffer, offset, size, rows, stride;
    int approx;
    int64_t by, pitch; /* rows that the content of tensor `by` names, see hbtrace_picked_by */
} hbtrace_range;

/* Rows: first + j * step + i for 0 <= i < count and 0 <= j < repeat. Use the functions below. */
typedef struct {
    int64_t first, count, repeat, step;
} hbtrace_run;

/* Which rows the content of the index tensor named when the event was issued. Without runs: none. */
typedef struct {
    int64_t tensor;
    const hbtrace_run *runs;
    size_t run_count;
} hbtrace_pick;

typedef struct {
    const char *op;
    int64_t tensor, backend;
    const hbtrace_range *reads;
    size_t read_count;
    const hbtrace_range *writes;
    size_t write_count;
} hbtrace_node;

/* A key and its value, in `env` and `attrs`, each key once. Use the functions below. */
typedef struct {
    const char *key;
    char kind; /* 't'ext, 'i'nteger, 'n'umber, 'f'lag */
    const char *text;
    int64_t integer;
    double number;
} hbtrace_attr;

/* What is loaded where, so that addresses in `frames` can be told by name later. */
typedef struct {
    const char *path, *build_id;
    int64_t base, size;
} hbtrace_module;

typedef struct {
    int64_t thread, split, ubatch, time;
    const char *site, *label;
    int64_t duration;          /* ns that the call took */
    const char *const *frames; /* who called, innermost first: addresses as text, or `file.c:12 function` */
    size_t frame_count;
    const hbtrace_pick *picked; /* of compute, kernel and host_access only */
    size_t pick_count;
} hbtrace_common;

typedef struct {
    const char *producer, *engine, *engine_version;
    const char *const *command;
    size_t command_count;
    const hbtrace_attr *env;
    size_t env_count;
    const char *started_at, *threads, *notes;
    const hbtrace_module *modules;
    size_t modules_count;
} hbtrace_meta_keys;

typedef struct {
    const char *device, *type;
    int async, events, integrated, host_buffer;
    const char *const *accepts;
    size_t accepts_count;
    int synchronous;
    const char *const *drains;
    size_t drains_count;
    const char *registry;
    int64_t queue_of; /* the backend that this queue is inside of: a name, it orders nothing */
} hbtrace_backend_keys;

typedef struct {
    int host;
    int64_t backend;
    const char *device, *usage;
} hbtrace_buffer_keys;

typedef struct {
    int64_t buffer, offset, size, view_of;
    const char *const *flags;
    size_t flags_count;
    const char *type;
    const int64_t *ne;
    size_t ne_count;
    const int64_t *nb;
    size_t nb_count;
} hbtrace_tensor_keys;

typedef struct {
    const int64_t *backends;
    size_t backends_count;
    const char *cpu_buffer_type;
    int64_t copies, ring;
} hbtrace_sched_keys;

typedef struct {
    int64_t src_backend;
    const char *runs_on;
    int after_dst;
} hbtrace_copy_keys;

typedef struct {
    int64_t graph_uid, slot;
    int reserve, realloc;
    const int64_t *inputs;
    size_t inputs_count;
} hbtrace_alloc_keys;

/* Ranges. */

static inline hbtrace_range hbtrace_no_range(void) {
    hbtrace_range r = {HBTRACE_NONE, HBTRACE_NONE, HBTRACE_NONE, HBTRACE_NONE, HBTRACE_NONE, HBTRACE_NONE,
                       HBTRACE_UNSET, HBTRACE_NONE, HBTRACE_NONE};
    return r;
}

static inline hbtrace_range hbtrace_whole(int64_t tensor) {
    hbtrace_range r = hbtrace_no_range();
    r.tensor = tensor;
    return r;
}

static inline hbtrace_range hbtrace_part(int64_t tensor, int64_t offset, int64_t size) {
    hbtrace_range r = hbtrace_whole(tensor);
    r.offset = offset;
    r.size = size;
    return r;
}

static inline hbtrace_range hbtrace_bytes(int64_t buffer, int64_t offset, int64_t size) {
    hbtrace_range r = hbtrace_no_range();
    r.buffer = buffer;
    r.offset = offset;
    r.size = size;
    return r;
}

/* `rows` pieces of the range's size, `stride` bytes from the start of one to the next. */
static inline hbtrace_range hbtrace_strided(hbtrace_range r, int64_t rows, int64_t stride) {
    r.rows = rows;
    r.stride = stride;
    return r;
}

/* The range may be wider than what was touched. */
static inline hbtrace_range hbtrace_approx(hbtrace_range r) {
    r.approx = 1;
    return r;
}

/* Of a tensor's part only the rows that the content of tensor `by` names: row r begins at the part's offset +
 * r * pitch and has its size. Which rows these are, `picked` of the event says that runs it. */
static inline hbtrace_range hbtrace_picked_by(hbtrace_range r, int64_t by, int64_t pitch) {
    r.by = by;
    r.pitch = pitch;
    return r;
}

static inline hbtrace_run hbtrace_rows(int64_t first, int64_t count) {
    hbtrace_run r = {first, count, HBTRACE_NONE, HBTRACE_NONE};
    return r;
}

/* The run `repeat` times, `step` rows from the start of one to the next. */
static inline hbtrace_run hbtrace_repeated(hbtrace_run r, int64_t repeat, int64_t step) {
    r.repeat = repeat;
    r.step = step;
    return r;
}

static inline hbtrace_pick hbtrace_pick_rows(int64_t tensor, const hbtrace_run *runs, size_t run_count) {
    hbtrace_pick p = {tensor, runs, run_count};
    return p;
}

/* Attributes. */

static inline hbtrace_attr hbtrace_attr_text(const char *key, const char *value) {
    hbtrace_attr a = {key, 't', value, 0, 0};
    return a;
}

static inline hbtrace_attr hbtrace_attr_int(const char *key, int64_t value) {
    hbtrace_attr a = {key, 'i', NULL, value, 0};
    return a;
}

static inline hbtrace_attr hbtrace_attr_number(const char *key, double value) {
    hbtrace_attr a = {key, 'n', NULL, 0, value};
    return a;
}

static inline hbtrace_attr hbtrace_attr_flag(const char *key, int value) {
    hbtrace_attr a = {key, 'f', NULL, value != 0, 0};
    return a;
}

/* Structs with nothing in them. */

static inline hbtrace_node hbtrace_node_unset(void) {
    hbtrace_node n = {NULL, HBTRACE_NONE, HBTRACE_NONE, NULL, 0, NULL, 0};
    return n;
}

static inline hbtrace_common hbtrace_common_unset(void) {
    hbtrace_common c = {HBTRACE_NONE, HBTRACE_NONE, HBTRACE_NONE, HBTRACE_NONE, NULL, NULL,
                        HBTRACE_NONE, NULL,         0,            NULL,         0};
    return c;
}

static inline hbtrace_module hbtrace_module_unset(void) {
    hbtrace_module m = {NULL, NULL, HBTRACE_NONE, HBTRACE_NONE};
    return m;
}

static inline hbtrace_meta_keys hbtrace_meta_unset(void) {
    hbtrace_meta_keys k = {NULL, NULL, NULL, NULL, 0, NULL, 0, NULL, NULL, NULL, NULL, 0};
    return k;
}

static inline hbtrace_backend_keys hbtrace_backend_unset(void) {
    hbtrace_backend_keys k = {NULL, NULL, HBTRACE_UNSET, HBTRACE_UNSET, HBTRACE_UNSET, HBTRACE_UNSET,
                              NULL, 0,    HBTRACE_UNSET, NULL,          0,             NULL,
                              HBTRACE_NONE};
    return k;
}

static inline hbtrace_buffer_keys hbtrace_buffer_unset(void) {
    hbtrace_buffer_keys k = {HBTRACE_UNSET, HBTRACE_NONE, NULL, NULL};
    return k;
}

static inline hbtrace_tensor_keys hbtrace_tensor_unset(void) {
    hbtrace_tensor_keys k = {HBTRACE_NONE, HBTRACE_NONE, HBTRACE_NONE, HBTRACE_NONE, NULL, 0, NULL, NULL, 0, NULL, 0};
    return k;
}

static inline hbtrace_sched_keys hbtrace_sched_unset(void) {
    hbtrace_sched_keys k = {NULL, 0, NULL, HBTRACE_NONE, HBTRACE_NONE};
    return k;
}

static inline hbtrace_copy_keys hbtrace_copy_unset(void) {
    hbtrace_copy_keys k = {HBTRACE_NONE, NULL, HBTRACE_UNSET};
    return k;
}

static inline hbtrace_alloc_keys hbtrace_alloc_unset(void) {
    hbtrace_alloc_keys k = {HBTRACE_NONE, HBTRACE_NONE, HBTRACE_UNSET, HBTRACE_UNSET, NULL, 0};
    return k;
}

/* Begin and end. The path ends in .jsonl. */

hbtrace_recorder *hbtrace_open(const char *path, int options, char *error, size_t error_size);
int hbtrace_close(hbtrace_recorder *run); /* no thread may record any more */

/* Why an event was HBTRACE_INVALID or HBTRACE_STOPPED: the last such reason of any thread. */
void hbtrace_error(hbtrace_recorder *run, char *text, size_t size);

/* Held over an event and its work, so that no other thread's event comes between. May be nested. */
void hbtrace_lock(hbtrace_recorder *run);
void hbtrace_unlock(hbtrace_recorder *run);

/* Definitions. `meta` only as the first event; without it one is written. */

int hbtrace_meta(hbtrace_recorder *run, const hbtrace_meta_keys *keys, const hbtrace_common *common);
int hbtrace_backend(hbtrace_recorder *run, int64_t id, const char *name, const hbtrace_backend_keys *keys,
                    const hbtrace_common *common);
int hbtrace_backend_free(hbtrace_recorder *run, int64_t backend, const hbtrace_common *common);
int hbtrace_buffer(hbtrace_recorder *run, int64_t id, const char *name, int64_t size, const hbtrace_buffer_keys *keys,
                   const hbtrace_common *common);
int hbtrace_tensor(hbtrace_recorder *run, int64_t id, const char *name, const hbtrace_tensor_keys *keys,
                   const hbtrace_common *common);
int hbtrace_graph(hbtrace_recorder *run, int64_t id, int64_t uid, const hbtrace_node *nodes, size_t node_count,
                  const hbtrace_common *common);
int hbtrace_sched(hbtrace_recorder *run, int64_t id, const hbtrace_sched_keys *keys, const hbtrace_common *common);

/* The host's accesses. The range of those on a tensor names the tensor. */

int hbtrace_tensor_set(hbtrace_recorder *run, hbtrace_range tensor, const hbtrace_common *common);
int hbtrace_tensor_memset(hbtrace_recorder *run, hbtrace_range tensor, const hbtrace_common *common);
int hbtrace_tensor_get(hbtrace_recorder *run, hbtrace_range tensor, const hbtrace_common *common);
int hbtrace_set_direct(hbtrace_recorder *run, hbtrace_range tensor, int inferred, const hbtrace_common *common);
int hbtrace_get_direct(hbtrace_recorder *run, hbtrace_range tensor, int inferred, const hbtrace_common *common);
int hbtrace_tensor_copy(hbtrace_recorder *run, hbtrace_range src, hbtrace_range dst, const hbtrace_common *common);
int hbtrace_buffer_clear(hbtrace_recorder *run, int64_t buffer, const hbtrace_common *common);
int hbtrace_buffer_free(hbtrace_recorder *run, int64_t buffer, const hbtrace_common *common);
/* Ordered on a queue: cudaFreeAsync and its like. */
int hbtrace_buffer_free_on(hbtrace_recorder *run, int64_t buffer, int64_t backend, const hbtrace_common *common);
int hbtrace_host_access(hbtrace_recorder *run, const hbtrace_range *reads, size_t read_count,
                        const hbtrace_range *writes, size_t write_count, const hbtrace_common *common);

/* The queues' accesses. `host_range` may be hbtrace_no_range(). */

int hbtrace_set_async(hbtrace_recorder *run, int64_t backend, hbtrace_range tensor, hbtrace_range host_range,
                      const hbtrace_common *common);
int hbtrace_get_async(hbtrace_recorder *run, int64_t backend, hbtrace_range tensor, hbtrace_range host_range,
                      const hbtrace_common *common);
int hbtrace_copy_async(hbtrace_recorder *run, int64_t backend, hbtrace_range src, hbtrace_range dst,
                       const hbtrace_copy_keys *keys, const hbtrace_common *common);
int hbtrace_compute(hbtrace_recorder *run, int64_t backend, int64_t graph, const hbtrace_common *common);
int hbtrace_kernel(hbtrace_recorder *run, int64_t backend, const hbtrace_range *reads, size_t read_count,
                   const hbtrace_range *writes, size_t write_count, const hbtrace_common *common);

/* What orders them. */

int hbtrace_synchronize(hbtrace_recorder *run, int64_t backend, const hbtrace_common *common);
int hbtrace_event_record(hbtrace_recorder *run, int64_t backend, int64_t event, const hbtrace_common *common);
int hbtrace_event_wait(hbtrace_recorder *run, int64_t backend, int64_t event, const hbtrace_common *common);
int hbtrace_event_synchronize(hbtrace_recorder *run, int64_t event, const hbtrace_common *common);
int hbtrace_event_free(hbtrace_recorder *run, int64_t event, const hbtrace_common *common);
int hbtrace_release(hbtrace_recorder *run, const char *object, int64_t backend, const hbtrace_common *common);
int hbtrace_acquire(hbtrace_recorder *run, const char *object, int64_t backend, const hbtrace_common *common);

/* Markers. */

int hbtrace_sched_alloc(hbtrace_recorder *run, int64_t sched, const hbtrace_alloc_keys *keys,
                        const hbtrace_common *common);
int hbtrace_sched_reuse(hbtrace_recorder *run, int64_t sched, const hbtrace_common *common);
int hbtrace_sched_prepare(hbtrace_recorder *run, int64_t sched, int64_t slot, int rotated,
                          const hbtrace_common *common);
int hbtrace_sched_compute(hbtrace_recorder *run, int64_t sched, const hbtrace_common *common);
int hbtrace_sched_compute_end(hbtrace_recorder *run, int64_t sched, const hbtrace_common *common);
int hbtrace_ubatch(hbtrace_recorder *run, int64_t sched, int64_t n, int64_t tokens, const char *phase,
                   const hbtrace_common *common);
int hbtrace_note(hbtrace_recorder *run, const char *what, const hbtrace_attr *attrs, size_t attr_count,
                 const hbtrace_common *common);
int hbtrace_note_of(hbtrace_recorder *run, int64_t sched, const char *what, const hbtrace_attr *attrs,
                    size_t attr_count, const hbtrace_common *common);

#ifdef __cplusplus
}
#endif

#endif /* HBTRACE_RECORDER_H */

#if defined(HBTRACE_RECORDER_IMPLEMENTATION) && !defined(HBTRACE_RECORDER_IMPLEMENTED)
#define HBTRACE_RECORDER_IMPLEMENTED

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    HBTR_GO = 1,           /* of hbtr_begin: the event is to be written */
    HBTR_ENDS = 17,        /* whole lines that can be taken back to make room for the note that the disk is full */
    HBTR_LONGEST = 1 << 27 /* the reader takes no longer line */
};

struct hbtrace_recorder {
    pthread_mutex_t mutex;
    pthread_key_t key; /* the thread's number + 1. Not pthread_self(): the next thread can get that again */
    intptr_t threads;
    char *path, *spool;
    int descriptor, options;
    pid_t pid;
    int64_t rows;
    int stopped;
    off_t ends[HBTR_ENDS];
    int end_count;
    char *line;
    size_t used, room;
    int bad, out_of_memory;
    const char *ev;
    char error[1024];
};

/* ---- text ---- */

static void hbtr_put(hbtrace_recorder *run, const char *data, size_t size) {
    if (run->out_of_memory) return;
    if (run->room - run->used < size) {
        size_t room = (run->used + size) * 2;
        char *grown = (char *)realloc(run->line, room);
        if (grown == NULL) {
            run->out_of_memory = 1;
            return;
        }
        run->line = grown;
        run->room = room;
    }
    memcpy(run->line + run->used, data, size);
    run->used += size;
}

static void hbtr_puts(hbtrace_recorder *run, const char *text) { hbtr_put(run, text, strlen(text)); }

/* The length of the UTF-8 character at `s`, 0 if there is none. Overlong forms and surrogates are none. */
static size_t hbtr_utf8(const unsigned char *s) {
    size_t length, k;
    if (s[0] < 0x80) return 1;
    if (s[0] < 0xC2 || s[0] > 0xF4) return 0;
    length = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    for (k = 1; k < length; k++)
        if ((s[k] & 0xC0) != 0x80) return 0; /* the end of the text, too */
    if (s[0] == 0xE0 && s[1] < 0xA0) return 0;
    if (s[0] == 0xED && s[1] > 0x9F) return 0;
    if (s[0] == 0xF0 && s[1] < 0x90) return 0;
    if (s[0] == 0xF4 && s[1] > 0x8F) return 0;
    return length;
}

/* A JSON string. A byte that is no UTF-8 would make the whole line unreadable: U+FFFD stands for it. */
static void hbtr_string(hbtrace_recorder *run, const char *text) {
    const unsigned char *s = (const unsigned char *)text;
    hbtr_put(run, "\"", 1);
    while (*s != 0) {
        const unsigned char *start = s;
        while (*s >= 0x20 && *s < 0x80 && *s != '"' && *s != '\\') s++;
        hbtr_put(run, (const char *)start, (size_t)(s - start));
        if (*s == 0) break;
        if (*s == '"' || *s == '\\') {
            hbtr_put(run, "\\", 1);
            hbtr_put(run, (const char *)s++, 1);
        } else if (*s < 0x20) {
            char escape[8];
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)*s++);
            hbtr_puts(run, escape);
        } else {
            size_t length = hbtr_utf8(s);
            if (length == 0)
                hbtr_puts(run, "\xEF\xBF\xBD");
            else
                hbtr_put(run, (const char *)s, length);
            s += length == 0 ? 1 : length;
        }
    }
    hbtr_put(run, "\"", 1);
}

static void hbtr_integer(hbtrace_recorder *run, int64_t value) {
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    hbtr_puts(run, digits);
}

/* The locale's decimal mark, which may have several bytes, becomes a point. */
static void hbtr_number(hbtrace_recorder *run, double value) {
    char digits[40];
    const char *s = digits;
    snprintf(digits, sizeof digits, "%.17g", value);
    while (*s != 0) {
        size_t plain = strspn(s, "0123456789+-e");
        hbtr_put(run, s, plain);
        s += plain;
        if (*s == 0) break;
        hbtr_put(run, ".", 1);
        s += strcspn(s, "0123456789");
    }
    if (digits[strcspn(digits, ".,e")] == 0 && strspn(digits, "-0123456789") == strlen(digits)) hbtr_puts(run, ".0");
}

static void hbtr_key(hbtrace_recorder *run, const char *key) {
    if (run->used > 0 && run->line[run->used - 1] != '{') hbtr_put(run, ",", 1);
    hbtr_string(run, key);
    hbtr_put(run, ":", 1);
}

/* The event is not to be written; the first reason is told. */
static void hbtr_bad(hbtrace_recorder *run, const char *key, const char *format, ...) {
    va_list values;
    int begun;
    if (run->bad) return;
    run->bad = 1;
    begun = snprintf(run->error, sizeof run->error, "%s: %s ", run->ev, key);
    if (begun < 0 || (size_t)begun >= sizeof run->error) return;
    va_start(values, format);
    vsnprintf(run->error + begun, sizeof run->error - (size_t)begun, format, values);
    va_end(values);
}

/* ---- keys ---- */

static void hbtr_int(hbtrace_recorder *run, const char *key, int64_t value, int64_t least) {
    if (value == HBTRACE_NONE) return;
    if (value < least) hbtr_bad(run, key, "must be %lld or more, not %lld", (long long)least, (long long)value);
    hbtr_key(run, key);
    hbtr_integer(run, value);
}

static void hbtr_any_int(hbtrace_recorder *run, const char *key, int64_t value) {
    hbtr_int(run, key, value, INT64_MIN + 1);
}

static void hbtr_id(hbtrace_recorder *run, const char *key, int64_t value) { hbtr_int(run, key, value, -1); }

static void hbtr_needed_id(hbtrace_recorder *run, const char *key, int64_t value) {
    if (value == HBTRACE_NONE) hbtr_bad(run, key, "is needed");
    hbtr_int(run, key, value, 0);
}

static void hbtr_flag(hbtrace_recorder *run, const char *key, int value) {
    if (value == HBTRACE_UNSET) return;
    hbtr_key(run, key);
    hbtr_puts(run, value ? "true" : "false");
}

static void hbtr_text(hbtrace_recorder *run, const char *key, const char *text) {
    if (text == NULL) return;
    hbtr_key(run, key);
    hbtr_string(run, text);
}

static void hbtr_needed_text(hbtrace_recorder *run, const char *key, const char *text) {
    if (text == NULL) hbtr_bad(run, key, "is needed");
    hbtr_text(run, key, text);
}

/* `known`: the words of a named set, each with a space before and after. */
static void hbtr_check_word(hbtrace_recorder *run, const char *key, const char *known, const char *word) {
    const char *found = known;
    size_t length = strlen(word);
    while (length > 0 && strchr(word, ' ') == NULL && (found = strstr(found, word)) != NULL) {
        if (found[-1] == ' ' && found[length] == ' ') return;
        found++;
    }
    hbtr_bad(run, key, "must be one of%.*s, not %.40s", (int)strlen(known) - 1, known, word);
}

static void hbtr_word(hbtrace_recorder *run, const char *key, const char *known, const char *word) {
    if (word == NULL) return;
    hbtr_check_word(run, key, known, word);
    hbtr_text(run, key, word);
}

/* A list that is not given is NULL; an empty one is not. */
static int hbtr_listed(hbtrace_recorder *run, const char *key, int given, size_t count) {
    if (given)
        hbtr_key(run, key);
    else if (count > 0)
        hbtr_bad(run, key, "is NULL, with a count");
    return given;
}

/* `known` is NULL for any words. */
static void hbtr_texts(hbtrace_recorder *run, const char *key, const char *known, const char *const *texts,
                       size_t count) {
    size_t k;
    if (!hbtr_listed(run, key, texts != NULL, count)) return;
    hbtr_put(run, "[", 1);
    for (k = 0; k < count; k++) {
        if (k > 0) hbtr_put(run, ",", 1);
        if (texts[k] == NULL)
            hbtr_bad(run, key, "holds a NULL");
        else {
            if (known != NULL) hbtr_check_word(run, key, known, texts[k]);
            hbtr_string(run, texts[k]);
        }
    }
    hbtr_put(run, "]", 1);
}

static void hbtr_ints(hbtrace_recorder *run, const char *key, const int64_t *values, size_t count) {
    size_t k;
    if (!hbtr_listed(run, key, values != NULL, count)) return;
    hbtr_put(run, "[", 1);
    for (k = 0; k < count; k++) {
        if (k > 0) hbtr_put(run, ",", 1);
        hbtr_integer(run, values[k]);
    }
    hbtr_put(run, "]", 1);
}

static void hbtr_attrs(hbtrace_recorder *run, const char *key, const hbtrace_attr *attrs, size_t count) {
    size_t k, other;
    if (!hbtr_listed(run, key, attrs != NULL, count)) return;
    hbtr_put(run, "{", 1);
    for (k = 0; k < count; k++) {
        const hbtrace_attr *a = &attrs[k];
        if (a->key == NULL || (a->kind == 't' && a->text == NULL)) {
            hbtr_bad(run, key, "holds a NULL");
            continue;
        }
        for (other = 0; other < k && !run->bad; other++)
            if (strcmp(attrs[other].key, a->key) == 0) hbtr_bad(run, key, "holds the key %.40s twice", a->key);
        hbtr_key(run, a->key);
        if (a->kind == 't') {
            hbtr_string(run, a->text);
        } else if (a->kind == 'i') {
            hbtr_integer(run, a->integer);
        } else if (a->kind == 'f') {
            hbtr_puts(run, a->integer ? "true" : "false");
        } else if (a->kind == 'n' && a->number - a->number == 0) {
            hbtr_number(run, a->number);
        } else {
            hbtr_bad(run, key, "holds what JSON cannot say, at %.40s", a->key);
        }
    }
    hbtr_put(run, "}", 1);
}

static void hbtr_span(hbtrace_recorder *run, const char *key, const hbtrace_range *r) {
    hbtr_int(run, "offset", r->offset, 0);
    hbtr_int(run, "size", r->size, 0);
    hbtr_int(run, "rows", r->rows, 1);
    hbtr_int(run, "stride", r->stride, 0);
    hbtr_flag(run, "approx", r->approx);
    if (r->rows > 1 && r->stride < 1) hbtr_bad(run, key, "has rows, which need a stride of 1 or more");
}

/* The keys of an event that is about one tensor. */
static void hbtr_tensor_span(hbtrace_recorder *run, const hbtrace_range *r) {
    if (r->buffer != HBTRACE_NONE) hbtr_bad(run, "tensor", "must be a range of a tensor, not of a buffer");
    if (r->by != HBTRACE_NONE || r->pitch != HBTRACE_NONE)
        hbtr_bad(run, "tensor", "must not be rows that an index picks");
    hbtr_needed_id(run, "tensor", r->tensor);
    hbtr_span(run, "tensor", r);
}

/* Of a range of rows that an index picks: it would count as if it had no `by`. */
static void hbtr_check_by(hbtrace_recorder *run, const char *key, const hbtrace_range *r) {
    if (r->buffer >= 0) hbtr_bad(run, key, "has by, which picks rows of a tensor, not of a buffer");
    if ((r->rows != HBTRACE_NONE && r->rows != 1) || (r->stride != HBTRACE_NONE && r->stride != 0))
        hbtr_bad(run, key, "has by, which goes without rows and stride");
    if (r->size == HBTRACE_NONE) hbtr_bad(run, key, "has by, which needs a size");
    if (r->pitch == HBTRACE_NONE) hbtr_bad(run, key, "has by, which needs a pitch");
}

static void hbtr_one_range(hbtrace_recorder *run, const char *key, const hbtrace_range *r) {
    if ((r->tensor < 0) == (r->buffer < 0)) hbtr_bad(run, key, "must name a tensor or a buffer, and one of them only");
    hbtr_put(run, "{", 1);
    hbtr_id(run, "tensor", r->tensor);
    hbtr_id(run, "buffer", r->buffer);
    if (r->by >= 0) hbtr_check_by(run, key, r);
    hbtr_span(run, key, r);
    hbtr_id(run, "by", r->by);
    hbtr_int(run, "pitch", r->pitch, 1);
    hbtr_put(run, "}", 1);
}

static int hbtr_given(const hbtrace_range *r) {
    return r->tensor != HBTRACE_NONE || r->buffer != HBTRACE_NONE || r->offset != HBTRACE_NONE ||
           r->size != HBTRACE_NONE || r->rows != HBTRACE_NONE || r->stride != HBTRACE_NONE ||
           r->approx != HBTRACE_UNSET || r->by != HBTRACE_NONE || r->pitch != HBTRACE_NONE;
}

static void hbtr_range(hbtrace_recorder *run, const char *key, const hbtrace_range *r, int needed) {
    if (!needed && !hbtr_given(r)) return;
    hbtr_key(run, key);
    hbtr_one_range(run, key, r);
}

static void hbtr_ranges(hbtrace_recorder *run, const char *key, const hbtrace_range *ranges, size_t count) {
    size_t k;
    if (!hbtr_listed(run, key, ranges != NULL, count)) return;
    hbtr_put(run, "[", 1);
    for (k = 0; k < count; k++) {
        if (k > 0) hbtr_put(run, ",", 1);
        hbtr_one_range(run, key, &ranges[k]);
    }
    hbtr_put(run, "]", 1);
}

static void hbtr_picks(hbtrace_recorder *run, const char *key, const hbtrace_pick *picks, size_t count) {
    size_t k, j;
    if (!hbtr_listed(run, key, picks != NULL, count)) return;
    hbtr_put(run, "[", 1);
    for (k = 0; k < count; k++) {
        const hbtrace_run *runs = picks[k].runs;
        hbtr_puts(run, k > 0 ? ",{" : "{");
        if (picks[k].tensor < 0) hbtr_bad(run, key, "must name the index tensor");
        hbtr_id(run, "tensor", picks[k].tensor);
        if (hbtr_listed(run, "runs", runs != NULL, picks[k].run_count)) {
            hbtr_put(run, "[", 1);
            for (j = 0; j < picks[k].run_count; j++) {
                hbtr_puts(run, j > 0 ? ",{" : "{");
                if (runs[j].first == HBTRACE_NONE) hbtr_bad(run, key, "has a run without first");
                hbtr_any_int(run, "first", runs[j].first);
                hbtr_any_int(run, "count", runs[j].count);
                hbtr_any_int(run, "repeat", runs[j].repeat);
                hbtr_any_int(run, "step", runs[j].step);
                hbtr_put(run, "}", 1);
            }
            hbtr_put(run, "]", 1);
        }
        hbtr_put(run, "}", 1);
    }
    hbtr_put(run, "]", 1);
}

static void hbtr_modules(hbtrace_recorder *run, const char *key, const hbtrace_module *modules, size_t count) {
    size_t k;
    if (!hbtr_listed(run, key, modules != NULL, count)) return;
    hbtr_put(run, "[", 1);
    for (k = 0; k < count; k++) {
        hbtr_puts(run, k > 0 ? ",{" : "{");
        hbtr_text(run, "path", modules[k].path);
        hbtr_text(run, "build_id", modules[k].build_id);
        hbtr_int(run, "base", modules[k].base, 0);
        hbtr_int(run, "size", modules[k].size, 0);
        hbtr_put(run, "}", 1);
    }
    hbtr_put(run, "]", 1);
}

/* ---- the file ---- */

static void hbtr_cut(hbtrace_recorder *run, off_t end) {
    if (ftruncate(run->descriptor, end) == 0) lseek(run->descriptor, end, SEEK_SET);
}

/* The signals of writing, SIGXFSZ beyond the limit of a file's size and SIGPIPE: they would end the program. Between
 * hbtr_hold and hbtr_let_go what would raise them is an error only, and the program's own ones are left as they were. */
typedef struct {
    sigset_t ours, before;
} hbtr_signals;

static void hbtr_hold(hbtr_signals *held) {
    static const int numbers[] = {SIGXFSZ, SIGPIPE};
    sigset_t pending;
    int k, any = 0;
    sigemptyset(&held->ours);
    for (k = 0; k < 2; k++) sigaddset(&held->ours, numbers[k]);
    pthread_sigmask(SIG_BLOCK, &held->ours, &held->before);
    for (k = 0; k < 2; k++) any |= sigismember(&held->before, numbers[k]); /* or else none can be pending */
    if (!any || sigpending(&pending) != 0) return;
    for (k = 0; k < 2; k++)
        if (sigismember(&pending, numbers[k])) sigdelset(&held->ours, numbers[k]);
}

static void hbtr_let_go(hbtr_signals *held, int failed) {
#ifdef __APPLE__ /* has no sigtimedwait */
    sigset_t pending;
    int number;
    while (failed && sigpending(&pending) == 0 &&
           ((sigismember(&pending, SIGXFSZ) && sigismember(&held->ours, SIGXFSZ)) ||
            (sigismember(&pending, SIGPIPE) && sigismember(&held->ours, SIGPIPE))))
        sigwait(&held->ours, &number);
#else
    struct timespec none = {0, 0};
    while (failed && sigtimedwait(&held->ours, NULL, &none) > 0) {
    }
#endif
    pthread_sigmask(SIG_SETMASK, &held->before, NULL);
}

/* Tells the user, on standard error, which may be a file or a pipe, too. */
static void hbtr_tell(const char *format, ...) {
    hbtr_signals held;
    va_list values;
    hbtr_hold(&held);
    fputs("hbtrace: ", stderr);
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    hbtr_let_go(&held, 1);
}

/* Writes all of it; returns an errno or 0. */
static int hbtr_write_all(int descriptor, const char *data, size_t size) {
    hbtr_signals held;
    int error = 0;
    hbtr_hold(&held);
    while (size > 0 && error == 0) {
        ssize_t written = write(descriptor, data, size);
        if (written > 0) {
            data += written;
            size -= (size_t)written;
        } else if (written == 0 || errno != EINTR) {
            error = written == 0 ? ENOSPC : errno;
        }
    }
    hbtr_let_go(&held, error != 0);
    return error;
}

/* A whole line, or nothing of it: the next one must not go on where half a line ends. Returns an errno, or 0. */
static int hbtr_write(hbtrace_recorder *run, const char *data, size_t size) {
    off_t start = run->ends[run->end_count - 1];
    int error = hbtr_write_all(run->descriptor, data, size);
    if (error != 0) {
        hbtr_cut(run, start);
        return error;
    }
    if (run->end_count == HBTR_ENDS)
        memmove(run->ends, run->ends + 1, sizeof run->ends - sizeof run->ends[0]);
    else
        run->end_count++;
    run->ends[run->end_count - 1] = start + (off_t)size;
    return 0;
}

/* The program matters more than its trace: it goes on, and the trace says where it ends. */
static void hbtr_stop(hbtrace_recorder *run, int error) {
    const char *note = error == ENOSPC || error == EDQUOT
        ? "{\"ev\":\"note\",\"what\":\"recording_stopped\",\"attrs\":{\"reason\":\"disk_full\"}}\n"
        : "{\"ev\":\"note\",\"what\":\"recording_stopped\",\"attrs\":{\"reason\":\"write_failed\"}}\n";
    off_t last = run->ends[run->end_count - 1];
    run->stopped = 1;
    while (run->end_count > 1 && last - run->ends[run->end_count - 1] < (off_t)strlen(note)) {
        run->end_count--;
        run->rows--;
    }
    hbtr_cut(run, run->ends[run->end_count - 1]);
    if (hbtr_write(run, note, strlen(note)) == 0) run->rows++;
    snprintf(run->error, sizeof run->error, "%s: %s: the recording stops, the trace ends with row %lld", run->path,
             strerror(error), (long long)run->rows - 1);
    hbtr_tell("%s\n", run->error);
}

/* ---- an event ---- */

static intptr_t hbtr_thread(hbtrace_recorder *run) {
    intptr_t number = (intptr_t)pthread_getspecific(run->key);
    if (number == 0) {
        number = ++run->threads;
        pthread_setspecific(run->key, (void *)number);
    }
    return number - 1;
}

static void hbtr_start_line(hbtrace_recorder *run, const char *ev) {
    run->used = 0;
    run->bad = 0;
    run->out_of_memory = 0;
    run->ev = ev;
    hbtr_put(run, "{", 1);
    hbtr_text(run, "ev", ev);
}

static void hbtr_meta(hbtrace_recorder *run, const hbtrace_meta_keys *k) {
    char now[32];
    time_t seconds = time(NULL);
    struct tm parts;
    hbtr_start_line(run, "meta");
    hbtr_int(run, "version", 1, 1);
    hbtr_text(run, "producer", k->producer != NULL ? k->producer : "hbtrace_recorder.h");
    hbtr_text(run, "engine", k->engine);
    hbtr_text(run, "engine_version", k->engine_version);
    hbtr_texts(run, "command", NULL, k->command, k->command_count);
    hbtr_attrs(run, "env", k->env, k->env_count);
    if (k->started_at != NULL)
        hbtr_text(run, "started_at", k->started_at);
    else if (gmtime_r(&seconds, &parts) != NULL && strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%S+00:00", &parts) > 0)
        hbtr_text(run, "started_at", now);
    hbtr_word(run, "threads", " one ordered ", k->threads);
    hbtr_text(run, "notes", k->notes);
    hbtr_modules(run, "modules", k->modules, k->modules_count);
}

/* Whether the event can say which rows an index picked. */
static int hbtr_picking(const char *ev) {
    return strcmp(ev, "compute") == 0 || strcmp(ev, "kernel") == 0 || strcmp(ev, "host_access") == 0;
}

static void hbtr_common(hbtrace_recorder *run, const hbtrace_common *common) {
    hbtrace_common none = hbtrace_common_unset();
    const hbtrace_common *c = common != NULL ? common : &none;
    int64_t thread = c->thread, now = c->time;
    struct timespec clock;
    if (strcmp(run->ev, "meta") != 0) {
        if (thread == HBTRACE_NONE) thread = hbtr_thread(run);
        if (now == HBTRACE_NONE && !(run->options & HBTRACE_NO_TIMES) && clock_gettime(CLOCK_MONOTONIC, &clock) == 0)
            now = (int64_t)clock.tv_sec * 1000000000 + clock.tv_nsec;
    }
    hbtr_int(run, "split", c->split, -1);
    hbtr_int(run, "ubatch", c->ubatch, -1);
    hbtr_text(run, "site", c->site);
    hbtr_text(run, "label", c->label);
    hbtr_int(run, "thread", thread, 0);
    hbtr_any_int(run, "time", now);
    hbtr_int(run, "duration", c->duration, 0);
    hbtr_texts(run, "frames", NULL, c->frames, c->frame_count);
    if (!hbtr_picking(run->ev) && (c->picked != NULL || c->pick_count > 0))
        hbtr_bad(run, "picked", "is of compute, kernel and host_access only");
    hbtr_picks(run, "picked", c->picked, c->pick_count);
}

/* Writes the line. An event left out would make the trace tell of another run: without memory it ends. */
static int hbtr_finish_line(hbtrace_recorder *run) {
    int error;
    hbtr_put(run, "}\n", 2);
    if (run->bad) return HBTRACE_INVALID;
    if (run->used > HBTR_LONGEST) {
        hbtr_bad(run, "line", "is longer than %d MiB", HBTR_LONGEST >> 20);
        return HBTRACE_INVALID;
    }
    error = run->out_of_memory ? ENOMEM : hbtr_write(run, run->line, run->used);
    if (error != 0) {
        hbtr_stop(run, error);
        return HBTRACE_STOPPED;
    }
    run->rows++;
    return HBTRACE_OK;
}

static int hbtr_default_meta(hbtrace_recorder *run) {
    hbtrace_meta_keys none = hbtrace_meta_unset();
    hbtr_meta(run, &none);
    return hbtr_finish_line(run);
}

/* Holds the lock if it returns HBTR_GO; anything else is what the event's function returns. */
static int hbtr_begin(hbtrace_recorder *run, const char *ev) {
    int status = HBTR_GO, is_meta = strcmp(ev, "meta") == 0;
    if (run == NULL) return HBTRACE_OK;
    if (run->pid != getpid()) { /* no lock: a thread that the fork did not copy may hold it */
        snprintf(run->error, sizeof run->error, "%s: the recorder is another process's", ev);
        return HBTRACE_INVALID;
    }
    pthread_mutex_lock(&run->mutex);
    if (run->stopped) {
        status = HBTRACE_STOPPED;
    } else if (is_meta && run->rows > 0) {
        snprintf(run->error, sizeof run->error, "meta: must be the first event, not row %lld", (long long)run->rows);
        status = HBTRACE_INVALID;
    } else if (!is_meta && run->rows == 0 && hbtr_default_meta(run) != HBTRACE_OK) {
        status = HBTRACE_STOPPED;
    }
    if (status != HBTR_GO) {
        pthread_mutex_unlock(&run->mutex);
        return status;
    }
    hbtr_start_line(run, ev);
    return HBTR_GO;
}

static int hbtr_end(hbtrace_recorder *run, const hbtrace_common *common) {
    int status;
    hbtr_common(run, common);
    status = hbtr_finish_line(run);
    pthread_mutex_unlock(&run->mutex);
    return status;
}

/* ---- begin and end ---- */

static char *hbtr_joined(const char *text, const char *end) {
    size_t size = strlen(text) + strlen(end) + 1;
    char *joined = (char *)malloc(size);
    if (joined != NULL) snprintf(joined, size, "%s%s", text, end);
    return joined;
}

static int hbtr_mutex(pthread_mutex_t *mutex) {
    pthread_mutexattr_t attributes;
    int error = pthread_mutexattr_init(&attributes);
    if (error != 0) return error;
    error = pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    if (error == 0) error = pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return error;
}

static void hbtr_free(hbtrace_recorder *run) {
    free(run->path);
    free(run->spool);
    free(run->line);
    free(run);
}

/* Locks a file until it is closed; 0 if another recorder has it. */
static int hbtr_lock_file(int descriptor) {
#ifdef LOCK_EX
    return flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
#else
    return descriptor >= 0;
#endif
}

/* Removes what a crash left; 0 for the spool of a recorder that lives. */
static int hbtr_clear(const char *spool) {
    int there = open(spool, O_RDONLY | O_NONBLOCK | O_CLOEXEC), is_free = there < 0 || hbtr_lock_file(there);
    if (is_free) unlink(spool);
    if (there >= 0) close(there);
    return is_free;
}

/* What became of the spool while it was written; NULL if it is still what has its name. */
static const char *hbtr_lost(const hbtrace_recorder *run) {
    struct stat own, there;
    if (fstat(run->descriptor, &own) != 0) return NULL;
    if (stat(run->spool, &there) != 0) return "removed or renamed";
    return own.st_dev == there.st_dev && own.st_ino == there.st_ino ? NULL : "replaced by another file";
}

/* Why it cannot be opened is in `error`, which has room for `size`. */
static int hbtr_open_spool(hbtrace_recorder *run, char *error, size_t size) {
    struct stat found;
    size_t length = strlen(run->path);
    if (length < 6 || strcmp(run->path + length - 6, ".jsonl") != 0) {
        snprintf(error, size, "%s: name it .jsonl (JSON Lines); hbtrace convert makes .arrow of it", run->path);
        return 0;
    }
    if (stat(run->path, &found) == 0 && S_ISDIR(found.st_mode)) {
        snprintf(error, size, "%s is a folder", run->path);
        return 0;
    }
    if (!(run->options & HBTRACE_FORCE) && lstat(run->path, &found) == 0) {
        snprintf(error, size, "%s exists; give HBTRACE_FORCE to overwrite it", run->path);
        return 0;
    }
    if ((run->options & HBTRACE_FORCE) && !hbtr_clear(run->spool)) {
        snprintf(error, size, "%s is still written by another recorder, or by what was forked from it", run->spool);
        return 0;
    }
    run->descriptor = open(run->spool, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (run->descriptor >= 0) {
        hbtr_lock_file(run->descriptor);
        return 1;
    }
    if (errno == EEXIST)
        snprintf(error, size, "%s exists: a crash left it, or it is still written; rename it, or give HBTRACE_FORCE",
                 run->spool);
    else
        snprintf(error, size, "%s: cannot be written: %s", run->path, strerror(errno));
    return 0;
}

hbtrace_recorder *hbtrace_open(const char *path, int options, char *error, size_t error_size) {
    char unheard[1];
    hbtrace_recorder *run = (hbtrace_recorder *)calloc(1, sizeof *run);
    if (error == NULL || error_size == 0) {
        error = unheard;
        error_size = sizeof unheard;
    }
    error[0] = 0;
    if (path == NULL) path = "";
    if (run != NULL) {
        run->path = hbtr_joined(path, "");
        run->spool = hbtr_joined(path, ".spool.jsonl");
        run->line = (char *)malloc(run->room = 4096);
    }
    if (run == NULL || run->path == NULL || run->spool == NULL || run->line == NULL) {
        snprintf(error, error_size, "%s: out of memory", path);
        if (run != NULL) hbtr_free(run);
        return NULL;
    }
    run->options = options;
    run->pid = getpid();
    run->end_count = 1;
    if (!hbtr_open_spool(run, error, error_size)) {
        hbtr_free(run);
        return NULL;
    }
    if (hbtr_mutex(&run->mutex) != 0 || pthread_key_create(&run->key, NULL) != 0) {
        snprintf(error, error_size, "%s: no lock or key for threads", path);
        close(run->descriptor);
        unlink(run->spool);
        hbtr_free(run);
        return NULL;
    }
    hbtr_thread(run); /* the opener is thread 0 */
    return run;
}

int hbtrace_close(hbtrace_recorder *run) {
    struct stat found;
    const char *lost;
    int status;
    if (run == NULL) return HBTRACE_OK;
    if (run->pid != getpid()) { /* a fork's copy: the trace is its parent's */
        close(run->descriptor);
        hbtr_free(run);
        return HBTRACE_OK;
    }
    if (run->rows == 0 && !run->stopped) hbtr_default_meta(run);
    status = run->stopped ? HBTRACE_STOPPED : HBTRACE_OK;
    lost = hbtr_lost(run);
    if (close(run->descriptor) != 0) status = HBTRACE_STOPPED;
    if (lost != NULL) {
        status = HBTRACE_STOPPED;
        hbtr_tell("%s: %s was %s while it was written\n", run->path, run->spool, lost);
    } else if (!(run->options & HBTRACE_FORCE) && lstat(run->path, &found) == 0) {
        errno = EEXIST;
        status = HBTRACE_STOPPED;
        hbtr_tell("%s exists; the events are kept in %s\n", run->path, run->spool);
    } else if (rename(run->spool, run->path) != 0) {
        status = HBTRACE_STOPPED;
        hbtr_tell("%s: %s; the events are kept in %s\n", run->path, strerror(errno), run->spool);
    }
    pthread_key_delete(run->key);
    pthread_mutex_destroy(&run->mutex);
    hbtr_free(run);
    return status;
}

void hbtrace_error(hbtrace_recorder *run, char *text, size_t size) {
    if (text == NULL || size == 0) return;
    text[0] = 0;
    if (run == NULL) return;
    hbtrace_lock(run);
    snprintf(text, size, "%s", run->error);
    hbtrace_unlock(run);
}

void hbtrace_lock(hbtrace_recorder *run) {
    if (run != NULL && run->pid == getpid()) pthread_mutex_lock(&run->mutex);
}

void hbtrace_unlock(hbtrace_recorder *run) {
    if (run != NULL && run->pid == getpid()) pthread_mutex_unlock(&run->mutex);
}

/* ---- the events ---- */

/* Begins the event, or returns from its function. */
#define HBTR_BEGIN(name)                      \
    do {                                      \
        int status = hbtr_begin(run, name);   \
        if (status != HBTR_GO) return status; \
    } while (0)

int hbtrace_meta(hbtrace_recorder *run, const hbtrace_meta_keys *keys, const hbtrace_common *common) {
    hbtrace_meta_keys none = hbtrace_meta_unset();
    HBTR_BEGIN("meta");
    hbtr_meta(run, keys != NULL ? keys : &none);
    return hbtr_end(run, common);
}

int hbtrace_backend(hbtrace_recorder *run, int64_t id, const char *name, const hbtrace_backend_keys *keys,
                    const hbtrace_common *common) {
    hbtrace_backend_keys none = hbtrace_backend_unset();
    const hbtrace_backend_keys *k = keys != NULL ? keys : &none;
    HBTR_BEGIN("backend");
    hbtr_needed_id(run, "id", id);
    hbtr_needed_text(run, "name", name);
    if (name != NULL && strcmp(name, "HOST") == 0) hbtr_bad(run, "name", "must not be HOST: reports call the host so");
    hbtr_text(run, "device", k->device);
    hbtr_word(run, "type", " cpu gpu igpu accel ", k->type);
    hbtr_flag(run, "async", k->async);
    hbtr_flag(run, "events", k->events);
    hbtr_flag(run, "integrated", k->integrated);
    hbtr_flag(run, "host_buffer", k->host_buffer);
    hbtr_texts(run, "accepts", NULL, k->accepts, k->accepts_count);
    hbtr_flag(run, "synchronous", k->synchronous);
    hbtr_texts(run, "drains", " set get ", k->drains, k->drains_count);
    hbtr_text(run, "registry", k->registry);
    hbtr_id(run, "queue_of", k->queue_of);
    return hbtr_end(run, common);
}

int hbtrace_buffer(hbtrace_recorder *run, int64_t id, const char *name, int64_t size, const hbtrace_buffer_keys *keys,
                   const hbtrace_common *common) {
    hbtrace_buffer_keys none = hbtrace_buffer_unset();
    const hbtrace_buffer_keys *k = keys != NULL ? keys : &none;
    HBTR_BEGIN("buffer");
    hbtr_needed_id(run, "id", id);
    hbtr_needed_text(run, "name", name);
    hbtr_needed_id(run, "size", size);
    hbtr_flag(run, "host", k->host);
    hbtr_id(run, "backend", k->backend);
    hbtr_text(run, "device", k->device);
    hbtr_word(run, "usage", " any weights compute ", k->usage);
    return hbtr_end(run, common);
}

int hbtrace_tensor(hbtrace_recorder *run, int64_t id, const char *name, const hbtrace_tensor_keys *keys,
                   const hbtrace_common *common) {
    hbtrace_tensor_keys none = hbtrace_tensor_unset();
    const hbtrace_tensor_keys *k = keys != NULL ? keys : &none;
    HBTR_BEGIN("tensor");
    hbtr_needed_id(run, "id", id);
    hbtr_needed_text(run, "name", name);
    hbtr_id(run, "buffer", k->buffer);
    hbtr_int(run, "offset", k->offset, 0);
    hbtr_int(run, "size", k->size, 0);
    hbtr_id(run, "view_of", k->view_of);
    hbtr_texts(run, "flags", " input output weight ", k->flags, k->flags_count);
    hbtr_text(run, "type", k->type);
    hbtr_ints(run, "ne", k->ne, k->ne_count);
    hbtr_ints(run, "nb", k->nb, k->nb_count);
    return hbtr_end(run, common);
}

int hbtrace_graph(hbtrace_recorder *run, int64_t id, int64_t uid, const hbtrace_node *nodes, size_t node_count,
                  const hbtrace_common *common) {
    size_t k;
    HBTR_BEGIN("graph");
    hbtr_needed_id(run, "id", id);
    hbtr_any_int(run, "uid", uid);
    if (hbtr_listed(run, "nodes", nodes != NULL, node_count)) {
        hbtr_put(run, "[", 1);
        for (k = 0; k < node_count; k++) {
            hbtr_puts(run, k > 0 ? ",{" : "{");
            hbtr_text(run, "op", nodes[k].op);
            hbtr_id(run, "tensor", nodes[k].tensor);
            hbtr_id(run, "backend", nodes[k].backend);
            hbtr_ranges(run, "reads", nodes[k].reads, nodes[k].read_count);
            hbtr_ranges(run, "writes", nodes[k].writes, nodes[k].write_count);
            hbtr_put(run, "}", 1);
        }
        hbtr_put(run, "]", 1);
    }
    return hbtr_end(run, common);
}

int hbtrace_sched(hbtrace_recorder *run, int64_t id, const hbtrace_sched_keys *keys, const hbtrace_common *common) {
    hbtrace_sched_keys none = hbtrace_sched_unset();
    const hbtrace_sched_keys *k = keys != NULL ? keys : &none;
    HBTR_BEGIN("sched");
    hbtr_needed_id(run, "id", id);
    hbtr_ints(run, "backends", k->backends, k->backends_count);
    hbtr_text(run, "cpu_buffer_type", k->cpu_buffer_type);
    hbtr_any_int(run, "copies", k->copies);
    hbtr_any_int(run, "ring", k->ring);
    return hbtr_end(run, common);
}

static int hbtr_on_tensor(hbtrace_recorder *run, const char *ev, const hbtrace_range *tensor, int inferred,
                          const hbtrace_common *common) {
    HBTR_BEGIN(ev);
    hbtr_tensor_span(run, tensor);
    hbtr_flag(run, "inferred", inferred);
    return hbtr_end(run, common);
}

int hbtrace_tensor_set(hbtrace_recorder *run, hbtrace_range tensor, const hbtrace_common *common) {
    return hbtr_on_tensor(run, "tensor_set", &tensor, HBTRACE_UNSET, common);
}

int hbtrace_tensor_memset(hbtrace_recorder *run, hbtrace_range tensor, const hbtrace_common *common) {
    return hbtr_on_tensor(run, "tensor_memset", &tensor, HBTRACE_UNSET, common);
}

int hbtrace_tensor_get(hbtrace_recorder *run, hbtrace_range tensor, const hbtrace_common *common) {
    return hbtr_on_tensor(run, "tensor_get", &tensor, HBTRACE_UNSET, common);
}

int hbtrace_set_direct(hbtrace_recorder *run, hbtrace_range tensor, int inferred, const hbtrace_common *common) {
    return hbtr_on_tensor(run, "set_direct", &tensor, inferred, common);
}

int hbtrace_get_direct(hbtrace_recorder *run, hbtrace_range tensor, int inferred, const hbtrace_common *common) {
    return hbtr_on_tensor(run, "get_direct", &tensor, inferred, common);
}

int hbtrace_tensor_copy(hbtrace_recorder *run, hbtrace_range src, hbtrace_range dst, const hbtrace_common *common) {
    HBTR_BEGIN("tensor_copy");
    hbtr_range(run, "src", &src, 1);
    hbtr_range(run, "dst", &dst, 1);
    return hbtr_end(run, common);
}

int hbtrace_host_access(hbtrace_recorder *run, const hbtrace_range *reads, size_t read_count,
                        const hbtrace_range *writes, size_t write_count, const hbtrace_common *common) {
    HBTR_BEGIN("host_access");
    hbtr_ranges(run, "reads", reads, read_count);
    hbtr_ranges(run, "writes", writes, write_count);
    return hbtr_end(run, common);
}

static int hbtr_transfer(hbtrace_recorder *run, const char *ev, int64_t backend, const hbtrace_range *tensor,
                         const hbtrace_range *host_range, const hbtrace_common *common) {
    HBTR_BEGIN(ev);
    hbtr_needed_id(run, "backend", backend);
    hbtr_tensor_span(run, tensor);
    hbtr_range(run, "host_range", host_range, 0);
    return hbtr_end(run, common);
}

int hbtrace_set_async(hbtrace_recorder *run, int64_t backend, hbtrace_range tensor, hbtrace_range host_range,
                      const hbtrace_common *common) {
    return hbtr_transfer(run, "set_async", backend, &tensor, &host_range, common);
}

int hbtrace_get_async(hbtrace_recorder *run, int64_t backend, hbtrace_range tensor, hbtrace_range host_range,
                      const hbtrace_common *common) {
    return hbtr_transfer(run, "get_async", backend, &tensor, &host_range, common);
}

int hbtrace_copy_async(hbtrace_recorder *run, int64_t backend, hbtrace_range src, hbtrace_range dst,
                       const hbtrace_copy_keys *keys, const hbtrace_common *common) {
    hbtrace_copy_keys none = hbtrace_copy_unset();
    const hbtrace_copy_keys *k = keys != NULL ? keys : &none;
    HBTR_BEGIN("copy_async");
    hbtr_needed_id(run, "backend", backend);
    hbtr_id(run, "src_backend", k->src_backend);
    hbtr_range(run, "src", &src, 1);
    hbtr_range(run, "dst", &dst, 1);
    hbtr_word(run, "runs_on", " src dst both ", k->runs_on);
    hbtr_flag(run, "after_dst", k->after_dst);
    return hbtr_end(run, common);
}

int hbtrace_kernel(hbtrace_recorder *run, int64_t backend, const hbtrace_range *reads, size_t read_count,
                   const hbtrace_range *writes, size_t write_count, const hbtrace_common *common) {
    HBTR_BEGIN("kernel");
    hbtr_needed_id(run, "backend", backend);
    hbtr_ranges(run, "reads", reads, read_count);
    hbtr_ranges(run, "writes", writes, write_count);
    return hbtr_end(run, common);
}

/* Events of one or two ids; `second` is NULL where there is only one. */
static int hbtr_ids(hbtrace_recorder *run, const char *ev, const char *first, int64_t one, const char *second,
                    int64_t two, const hbtrace_common *common) {
    HBTR_BEGIN(ev);
    hbtr_needed_id(run, first, one);
    if (second != NULL) hbtr_needed_id(run, second, two);
    return hbtr_end(run, common);
}

int hbtrace_backend_free(hbtrace_recorder *run, int64_t backend, const hbtrace_common *common) {
    return hbtr_ids(run, "backend_free", "backend", backend, NULL, 0, common);
}

int hbtrace_buffer_clear(hbtrace_recorder *run, int64_t buffer, const hbtrace_common *common) {
    return hbtr_ids(run, "buffer_clear", "buffer", buffer, NULL, 0, common);
}

int hbtrace_buffer_free(hbtrace_recorder *run, int64_t buffer, const hbtrace_common *common) {
    return hbtr_ids(run, "buffer_free", "buffer", buffer, NULL, 0, common);
}

int hbtrace_buffer_free_on(hbtrace_recorder *run, int64_t buffer, int64_t backend, const hbtrace_common *common) {
    return hbtr_ids(run, "buffer_free", "buffer", buffer, "backend", backend, common);
}

int hbtrace_compute(hbtrace_recorder *run, int64_t backend, int64_t graph, const hbtrace_common *common) {
    return hbtr_ids(run, "compute", "backend", backend, "graph", graph, common);
}

int hbtrace_synchronize(hbtrace_recorder *run, int64_t backend, const hbtrace_common *common) {
    return hbtr_ids(run, "synchronize", "backend", backend, NULL, 0, common);
}

int hbtrace_event_record(hbtrace_recorder *run, int64_t backend, int64_t event, const hbtrace_common *common) {
    return hbtr_ids(run, "event_record", "backend", backend, "event", event, common);
}

int hbtrace_event_wait(hbtrace_recorder *run, int64_t backend, int64_t event, const hbtrace_common *common) {
    return hbtr_ids(run, "event_wait", "backend", backend, "event", event, common);
}

int hbtrace_event_synchronize(hbtrace_recorder *run, int64_t event, const hbtrace_common *common) {
    return hbtr_ids(run, "event_synchronize", "event", event, NULL, 0, common);
}

int hbtrace_event_free(hbtrace_recorder *run, int64_t event, const hbtrace_common *common) {
    return hbtr_ids(run, "event_free", "event", event, NULL, 0, common);
}

static int hbtr_hand_over(hbtrace_recorder *run, const char *ev, const char *object, int64_t backend,
                          const hbtrace_common *common) {
    HBTR_BEGIN(ev);
    hbtr_needed_text(run, "object", object);
    hbtr_id(run, "backend", backend);
    return hbtr_end(run, common);
}

int hbtrace_release(hbtrace_recorder *run, const char *object, int64_t backend, const hbtrace_common *common) {
    return hbtr_hand_over(run, "release", object, backend, common);
}

int hbtrace_acquire(hbtrace_recorder *run, const char *object, int64_t backend, const hbtrace_common *common) {
    return hbtr_hand_over(run, "acquire", object, backend, common);
}

int hbtrace_sched_alloc(hbtrace_recorder *run, int64_t sched, const hbtrace_alloc_keys *keys,
                        const hbtrace_common *common) {
    hbtrace_alloc_keys none = hbtrace_alloc_unset();
    const hbtrace_alloc_keys *k = keys != NULL ? keys : &none;
    HBTR_BEGIN("sched_alloc");
    hbtr_id(run, "sched", sched);
    hbtr_any_int(run, "graph_uid", k->graph_uid);
    hbtr_any_int(run, "slot", k->slot);
    hbtr_flag(run, "reserve", k->reserve);
    hbtr_flag(run, "realloc", k->realloc);
    hbtr_ints(run, "inputs", k->inputs, k->inputs_count);
    return hbtr_end(run, common);
}

static int hbtr_of_sched(hbtrace_recorder *run, const char *ev, int64_t sched, const hbtrace_common *common) {
    HBTR_BEGIN(ev);
    hbtr_id(run, "sched", sched);
    return hbtr_end(run, common);
}

int hbtrace_sched_reuse(hbtrace_recorder *run, int64_t sched, const hbtrace_common *common) {
    return hbtr_of_sched(run, "sched_reuse", sched, common);
}

int hbtrace_sched_prepare(hbtrace_recorder *run, int64_t sched, int64_t slot, int rotated,
                          const hbtrace_common *common) {
    HBTR_BEGIN("sched_prepare");
    hbtr_id(run, "sched", sched);
    hbtr_any_int(run, "slot", slot);
    hbtr_flag(run, "rotated", rotated);
    return hbtr_end(run, common);
}

int hbtrace_sched_compute(hbtrace_recorder *run, int64_t sched, const hbtrace_common *common) {
    return hbtr_of_sched(run, "sched_compute", sched, common);
}

int hbtrace_sched_compute_end(hbtrace_recorder *run, int64_t sched, const hbtrace_common *common) {
    return hbtr_of_sched(run, "sched_compute_end", sched, common);
}

int hbtrace_ubatch(hbtrace_recorder *run, int64_t sched, int64_t n, int64_t tokens, const char *phase,
                   const hbtrace_common *common) {
    HBTR_BEGIN("ubatch");
    hbtr_id(run, "sched", sched);
    hbtr_any_int(run, "n", n);
    hbtr_any_int(run, "tokens", tokens);
    hbtr_word(run, "phase", " prefill decode warmup ", phase);
    return hbtr_end(run, common);
}

int hbtrace_note(hbtrace_recorder *run, const char *what, const hbtrace_attr *attrs, size_t attr_count,
                 const hbtrace_common *common) {
    return hbtrace_note_of(run, HBTRACE_NONE, what, attrs, attr_count, common);
}

int hbtrace_note_of(hbtrace_recorder *run, int64_t sched, const char *what, const hbtrace_attr *attrs,
                    size_t attr_count, const hbtrace_common *common) {
    HBTR_BEGIN("note");
    hbtr_id(run, "sched", sched);
    hbtr_text(run, "what", what);
    hbtr_attrs(run, "attrs", attrs, attr_count);
    return hbtr_end(run, common);
}

#undef HBTR_BEGIN

#ifdef __cplusplus
}
#endif

#endif /* HBTRACE_RECORDER_IMPLEMENTATION */
