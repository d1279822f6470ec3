/* The interface of the compiled part of hbtrace: all that Python sees of it.
 *
 * hbtrace/compiled/library.py makes the ctypes signatures from the lines that start with HB_API, so they stay one a
 * function, with the types used here. Integers of a program are those of hbtrace/replay/program.py.
 *
 * No function throws. Those that can fail return a status; after any but HB_OK an object can only be freed.
 */
#ifndef HBTRACE_H
#define HBTRACE_H

#include <stdint.h>

#if defined(_WIN32)
#define HB_EXPORT __declspec(dllexport)
#else
#define HB_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
#define HB_API extern "C" HB_EXPORT
#else
#define HB_API HB_EXPORT
#endif

/* Raised when a function changes its meaning but not its types. */
#define HB_INTERFACE 4

#define HB_OK 0
#define HB_NO_MEMORY 1
#define HB_BAD_PROGRAM 2 /* an operation, a footprint or a piece that no program has */
#define HB_BAD_BATCH 3   /* not of the schema, or an index out of its array */

/* Integers of one hit, in the order of `Hit` in hbtrace/replay/kernel.py; the last, bytes, is unsigned. */
#define HB_HIT 14

/* What the event of a row is to a meter, added up: as hbtrace/checks/steps.py has it. */
#define HB_COMPUTES 1
#define HB_ENDS 2
#define HB_HOST_WRITES 4
#define HB_HOST_WAITS 8

/* Integers of what a meter counted, in the order of `Counted` in hbtrace/checks/steps.py. */
#define HB_COUNTED 15

typedef struct hb_kernel hb_kernel;
typedef struct hb_meter hb_meter;
typedef struct hb_order hb_order;

/* HB_INTERFACE of the library, and what it was made of (compile.py, `stamp`). */
HB_API int32_t hb_interface(void);
HB_API const char *hb_stamp(void);

/* A kernel for one trace, NULL without memory. closed: no actor appears that does not know all that actor 0 knows. */
HB_API hb_kernel *hb_kernel_new(int32_t closed);
HB_API void hb_kernel_free(hb_kernel *kernel);

/* Replay one chunk: `steps` steps of code, after the `count` footprints it uses for the first time were defined:
 * footprints[k] has the pieces bounds[k] to bounds[k + 1], counted in integers, of which there are `integers`. Beyond
 * so many visits or races it ends, which the counts tell; then the kernel can only be freed. */
HB_API int32_t hb_kernel_run(hb_kernel *kernel, const int64_t *code, int64_t steps, const int64_t *footprints, const int64_t *bounds, int64_t count, const int64_t *pieces, int64_t integers, int64_t forget, int64_t visits, int64_t races);

/* The hits of the last run: how many, and HB_HIT integers each, good until the next run. */
HB_API int64_t hb_kernel_hit_count(const hb_kernel *kernel);
HB_API const int64_t *hb_kernel_hits(const hb_kernel *kernel);

/* The rows whose accesses can still be met, each once, in no order, good until the next call. Forgets what cannot. */
HB_API int32_t hb_kernel_remember(hb_kernel *kernel);
HB_API int64_t hb_kernel_row_count(const hb_kernel *kernel);
HB_API const int64_t *hb_kernel_rows(const hb_kernel *kernel);

/* What the budget asks for: atoms looked at so far, and cells where an atom is not exactly one; cells remembered, entries of all vector clocks. */
HB_API int64_t hb_kernel_visited(const hb_kernel *kernel);
HB_API int64_t hb_kernel_cells(const hb_kernel *kernel);
HB_API int64_t hb_kernel_known(const hb_kernel *kernel);

/* The memo of the lowering (memo.hpp). The schema stays the caller's; NULL where it cannot be read. */
struct ArrowSchema;
struct ArrowArray;
typedef struct hb_memo hb_memo;
HB_API hb_memo *hb_memo_new(const struct ArrowSchema *schema);
HB_API void hb_memo_free(hb_memo *memo);

/* An event whose rows can be learnt, and the columns that their meaning depends on. */
HB_API int32_t hb_memo_event(hb_memo *memo, const char *word, const int64_t *columns, int64_t count);

/* The next batch, which becomes the memo's until the next one; `first` is the number of its first row. */
HB_API int32_t hb_memo_take(hb_memo *memo, struct ArrowArray *batch, int64_t first);

/* Do rows from `row` up to `end`, as far as they are known and the code has at most so many integers: the next row, -1
 * where it failed. Their code is added to what was not taken yet. */
HB_API int64_t hb_memo_replay(hb_memo *memo, int64_t row, int64_t end, int64_t most);
HB_API int64_t hb_memo_code_size(const hb_memo *memo);
HB_API const int64_t *hb_memo_code(const hb_memo *memo);
HB_API void hb_memo_code_taken(hb_memo *memo);

/* Of each row of the batch the number of its template, -1 where the memo has none. */
HB_API int64_t hb_memo_shape(const hb_memo *memo, int64_t row);

/* What a row came to: HB_LESSON integers and then as many as they say. Steps of five integers, needs, roots read, roots
 * written by the host; the template of many reads and that of the row, or -1; whether it holds only until something is
 * noted; of a definition the place and the version that it gives, and what Python calls it, else -1; HB_COUNTS numbers
 * to add at each use. */
#define HB_LESSON 10
#define HB_COUNTS 7
HB_API int32_t hb_memo_learn(hb_memo *memo, int64_t row, const int64_t *lesson, int64_t integers);

/* What a row may need has this version from now on. Something was noted. All that was learnt is void. */
HB_API int32_t hb_memo_version(hb_memo *memo, int64_t place, int64_t version);
HB_API void hb_memo_noted(hb_memo *memo);
HB_API void hb_memo_forget(hb_memo *memo);

/* Definitions that changed something since they were last taken: the row and what Python calls it, each. */
HB_API int64_t hb_memo_defined_size(const hb_memo *memo);
HB_API const int64_t *hb_memo_defined(const hb_memo *memo);
HB_API void hb_memo_defined_taken(hb_memo *memo);

/* Sums of what known rows added since they were last taken (HB_COUNTS of them), and how many rows were known. */
HB_API const int64_t *hb_memo_counts(const hb_memo *memo);
HB_API void hb_memo_counts_taken(hb_memo *memo);
HB_API int64_t hb_memo_hits(const hb_memo *memo);

/* Windows of input writes (replay/windows.py), told by rows that Python lowered itself. */
HB_API int32_t hb_memo_issue(hb_memo *memo, int64_t many, const int64_t *roots, int64_t count, int64_t row);
HB_API int32_t hb_memo_many(hb_memo *memo, int64_t many, const int64_t *roots, int64_t count);
HB_API int32_t hb_memo_host_write(hb_memo *memo, int64_t root, int64_t row);
HB_API void hb_memo_forget_many(hb_memo *memo);
HB_API int64_t hb_memo_windows(const hb_memo *memo);

/* A meter for one trace, NULL without memory. */
HB_API hb_meter *hb_meter_new(void);
HB_API void hb_meter_free(hb_meter *meter);

/* The work of these actors is complete when the call returns; of those told once, for good. */
HB_API int32_t hb_meter_waits(hb_meter *meter, const int64_t *actors, int64_t count);

/* Count the steps of one chunk, given as to hb_kernel_run. Its rows are among `rows` of them, the first of which is
 * `first`; kinds and splits say of each what its event is, and its split or -1. */
HB_API int32_t hb_meter_run(hb_meter *meter, const int64_t *code, int64_t steps, const int64_t *footprints, const int64_t *bounds, int64_t count, const int64_t *pieces, int64_t integers, int64_t forget, const uint8_t *kinds, const int64_t *splits, int64_t first, int64_t rows);

/* HB_COUNTED integers, good until the next call. */
HB_API const int64_t *hb_meter_counted(hb_meter *meter);

/* The order of one trace, NULL without memory. */
HB_API hb_order *hb_order_new(void);
HB_API void hb_order_free(hb_order *order);

/* Do the steps of a chunk. What was known at each then stands below, good until the next call. */
HB_API int32_t hb_order_run(hb_order *order, const int64_t *code, int64_t steps);

/* Of each step three integers: the actor's own clock, which of the clocks below it knew of others, and whether anybody
 * learnt something. */
HB_API const int64_t *hb_order_steps(const hb_order *order);

/* So many clocks: the k-th is the pairs (actor, clock) bounds[k] to bounds[k + 1], counted in integers; the first is empty. */
HB_API int64_t hb_order_count(const hb_order *order);
HB_API const int64_t *hb_order_bounds(const hb_order *order);
HB_API const int64_t *hb_order_pairs(const hb_order *order);

#endif
