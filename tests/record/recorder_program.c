/* Programs that record themselves through the header: `recorder_program WHAT PATH`. Each line printed is a result. */
#define HBTRACE_RECORDER_IMPLEMENTATION
#include "hbtrace_recorder.h"

#include <sys/resource.h>
#include <sys/wait.h>

static hbtrace_recorder *open_or_die(const char *path, int options) {
    char error[512];
    hbtrace_recorder *run = hbtrace_open(path, options, error, sizeof error);
    if (run == NULL) {
        printf("%s\n", error);
        exit(1);
    }
    return run;
}

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static hbtrace_common at(int64_t number) {
    static const char *const frames[] = {"0x1234", "engine.c:7 decode"};
    hbtrace_common c = hbtrace_common_unset();
    c.thread = 2;
    c.split = 0;
    c.ubatch = number;
    c.time = 1000 + number;
    c.site = "engine.c";
    c.label = "a \"label\"";
    c.duration = 10 * number;
    c.frames = frames;
    c.frame_count = COUNT(frames);
    return c;
}

/* Every event with every key. The twin of `record_everything` in test_recorder_header.py. */
static void everything(hbtrace_recorder *run) {
    static const char *const words[] = {"engine", "-m", "model.gguf"};
    static const char *const accepts[] = {"GPU0", "GPU_Host"}, *const drains[] = {"get", "set"};
    static const char *const flags[] = {"input", "output"};
    static const int64_t ne[] = {4, 2}, nb[] = {4, 16}, ids[] = {1, 0};
    hbtrace_common c = at(0), *k = &c;
    hbtrace_range whole = hbtrace_strided(hbtrace_part(0, 4, 8), 2, 16), other = hbtrace_bytes(0, 32, 16);
    hbtrace_range all[3];
    hbtrace_run runs[2];
    hbtrace_pick picks[3];
    hbtrace_module modules[2];
    hbtrace_node nodes[2];
    hbtrace_attr attrs[4];
    hbtrace_meta_keys meta = hbtrace_meta_unset();
    hbtrace_backend_keys backend = hbtrace_backend_unset();
    hbtrace_buffer_keys buffer = hbtrace_buffer_unset();
    hbtrace_tensor_keys tensor = hbtrace_tensor_unset();
    hbtrace_sched_keys sched = hbtrace_sched_unset();
    hbtrace_copy_keys copy = hbtrace_copy_unset();
    hbtrace_alloc_keys alloc = hbtrace_alloc_unset();

    whole = hbtrace_approx(whole);
    all[0] = whole;
    all[1] = other;
    all[2] = hbtrace_picked_by(hbtrace_part(0, 0, 8), 1, 16);
    runs[0] = hbtrace_repeated(hbtrace_rows(-1, 2), 3, 4);
    runs[1] = hbtrace_rows(9, HBTRACE_NONE);
    picks[0] = hbtrace_pick_rows(1, runs, COUNT(runs));
    picks[1] = hbtrace_pick_rows(2, runs, 0);
    picks[2] = hbtrace_pick_rows(3, NULL, 0);
    modules[0] = hbtrace_module_unset();
    modules[0].path = "libengine.so";
    modules[0].build_id = "ab12";
    modules[0].base = 4096;
    modules[0].size = 64;
    modules[1] = hbtrace_module_unset();
    attrs[0] = hbtrace_attr_text("state", "tab\there, \xC3\xA9");
    attrs[1] = hbtrace_attr_int("step", -7);
    attrs[2] = hbtrace_attr_number("share", 0.25);
    attrs[3] = hbtrace_attr_flag("good", 1);
    nodes[0] = hbtrace_node_unset();
    nodes[0].op = "ADD";
    nodes[0].tensor = 0;
    nodes[0].backend = 0;
    nodes[0].reads = all;
    nodes[0].read_count = COUNT(all);
    nodes[0].writes = &other;
    nodes[0].write_count = 1;
    nodes[1] = hbtrace_node_unset();
    nodes[1].op = "VIEW";

    meta.producer = "a test";
    meta.engine = "engine";
    meta.engine_version = "1.2";
    meta.command = words;
    meta.command_count = COUNT(words);
    meta.env = attrs;
    meta.env_count = COUNT(attrs);
    meta.started_at = "2026-01-02T03:04:05+00:00";
    meta.threads = "ordered";
    meta.notes = "every event with every key";
    meta.modules = modules;
    meta.modules_count = COUNT(modules);
    hbtrace_meta(run, &meta, k);

    backend.device = "GPU";
    backend.type = "igpu";
    backend.async = 1;
    backend.events = 0;
    backend.integrated = 1;
    backend.host_buffer = 1;
    backend.accepts = accepts;
    backend.accepts_count = COUNT(accepts);
    backend.synchronous = 0;
    backend.drains = drains;
    backend.drains_count = COUNT(drains);
    backend.registry = "GPU";
    backend.queue_of = -1;
    hbtrace_backend(run, 0, "GPU0", &backend, k);

    buffer.host = 1;
    buffer.backend = 0;
    buffer.device = "GPU";
    buffer.usage = "compute";
    hbtrace_buffer(run, 0, "GPU_Host", 4096, &buffer, k);

    tensor.buffer = 0;
    tensor.offset = 64;
    tensor.size = 32;
    tensor.view_of = -1;
    tensor.flags = flags;
    tensor.flags_count = COUNT(flags);
    tensor.type = "f32";
    tensor.ne = ne;
    tensor.ne_count = COUNT(ne);
    tensor.nb = nb;
    tensor.nb_count = COUNT(nb);
    hbtrace_tensor(run, 0, "inp_tokens", &tensor, k);

    hbtrace_graph(run, 0, 77, nodes, COUNT(nodes), k);

    sched.backends = ids;
    sched.backends_count = COUNT(ids);
    sched.cpu_buffer_type = "GPU_Host";
    sched.copies = 1;
    sched.ring = 0;
    hbtrace_sched(run, 0, &sched, k);

    c = at(1);
    hbtrace_tensor_set(run, whole, k);
    hbtrace_tensor_memset(run, whole, k);
    hbtrace_tensor_get(run, whole, k);
    hbtrace_set_direct(run, whole, 1, k);
    hbtrace_get_direct(run, whole, 0, k);
    hbtrace_tensor_copy(run, whole, other, k);
    hbtrace_buffer_clear(run, 0, k);
    c.picked = picks;
    c.pick_count = COUNT(picks);
    hbtrace_host_access(run, all, COUNT(all), &other, 1, k);

    c = at(2);
    hbtrace_set_async(run, 0, whole, other, k);
    hbtrace_get_async(run, 0, whole, other, k);
    copy.src_backend = 0;
    copy.runs_on = "both";
    copy.after_dst = 1;
    hbtrace_copy_async(run, 0, whole, other, &copy, k);
    c.picked = picks;
    c.pick_count = COUNT(picks);
    hbtrace_compute(run, 0, 0, k);
    hbtrace_kernel(run, 0, all, COUNT(all), &other, 1, k);

    c = at(3);
    hbtrace_synchronize(run, 0, k);
    hbtrace_event_record(run, 0, 5, k);
    hbtrace_event_wait(run, 0, 5, k);
    hbtrace_event_synchronize(run, 5, k);
    hbtrace_event_free(run, 5, k);
    hbtrace_release(run, "door", 0, k);
    hbtrace_acquire(run, "door", 0, k);

    alloc.graph_uid = 77;
    alloc.slot = 0;
    alloc.reserve = 0;
    alloc.realloc = 1;
    alloc.inputs = ids;
    alloc.inputs_count = COUNT(ids);
    hbtrace_sched_alloc(run, 0, &alloc, k);
    hbtrace_sched_reuse(run, 0, k);
    hbtrace_sched_prepare(run, 0, 1, 1, k);
    hbtrace_sched_compute(run, 0, k);
    hbtrace_sched_compute_end(run, 0, k);
    hbtrace_ubatch(run, 0, 3, 512, "prefill", k);
    hbtrace_note_of(run, 0, "verdict", attrs, COUNT(attrs), k);
    hbtrace_buffer_free_on(run, 0, 0, k);
    hbtrace_backend_free(run, 0, k);
}

/* Functions of events of which another one knows more keys. */
static void fewer_keys(hbtrace_recorder *run) {
    hbtrace_common c = hbtrace_common_unset();
    c.time = 1;
    hbtrace_note(run, "verdict", NULL, 0, &c);
    hbtrace_buffer_free(run, 0, &c);
}

/* The queue still writes row 2 of a cache when the host reads rows 5 and 6, then rows 0 and 2. */
static void picked(hbtrace_recorder *run) {
    hbtrace_tensor_keys where = hbtrace_tensor_unset();
    hbtrace_range rows = hbtrace_picked_by(hbtrace_part(0, 0, 8), 1, 8), index = hbtrace_whole(1);
    hbtrace_node node = hbtrace_node_unset();
    hbtrace_common c = hbtrace_common_unset();
    hbtrace_run which;
    hbtrace_pick pick = hbtrace_pick_rows(1, &which, 1);
    hbtrace_backend(run, 0, "GPU0", NULL, NULL);
    hbtrace_buffer(run, 0, "GPU_Host", 128, NULL, NULL);
    where.buffer = 0;
    where.size = 64;
    hbtrace_tensor(run, 0, "cache", &where, NULL);
    where.offset = 64;
    hbtrace_tensor(run, 1, "index", &where, NULL);
    node.op = "SET_ROWS";
    node.reads = &index;
    node.read_count = 1;
    node.writes = &rows;
    node.write_count = 1;
    hbtrace_graph(run, 0, HBTRACE_NONE, &node, 1, NULL);
    c.picked = &pick;
    c.pick_count = 1;
    which = hbtrace_rows(2, 1);
    hbtrace_compute(run, 0, 0, &c);
    which = hbtrace_rows(5, 2);
    hbtrace_host_access(run, &rows, 1, NULL, 0, &c);
    which = hbtrace_repeated(hbtrace_rows(0, 1), 2, 2);
    hbtrace_host_access(run, &rows, 1, NULL, 0, &c);
}

/* Two ubatches: the host writes the tokens of the second while the queue may still read those of the first. */
static void two_ubatches(hbtrace_recorder *run, int mended) {
    hbtrace_tensor_keys where = hbtrace_tensor_unset();
    hbtrace_range tokens = hbtrace_whole(0);
    hbtrace_common c = hbtrace_common_unset();
    hbtrace_node node = hbtrace_node_unset();
    hbtrace_backend(run, 0, "GPU0", NULL, NULL);
    hbtrace_buffer(run, 0, "GPU_Host", 64, NULL, NULL);
    where.buffer = 0;
    hbtrace_tensor(run, 0, "inp_tokens", &where, NULL);
    node.op = "GET_ROWS";
    node.reads = &tokens;
    node.read_count = 1;
    hbtrace_graph(run, 0, HBTRACE_NONE, &node, 1, NULL);
    for (c.ubatch = 0; c.ubatch < 2; c.ubatch++) {
        hbtrace_tensor_set(run, tokens, &c);
        hbtrace_compute(run, 0, 0, &c);
        if (mended) hbtrace_synchronize(run, 0, &c);
    }
}

static void *many(void *run) {
    int k;
    for (k = 0; k < 500; k++) {
        hbtrace_lock((hbtrace_recorder *)run);
        hbtrace_ubatch((hbtrace_recorder *)run, 0, k, HBTRACE_NONE, NULL, NULL);
        hbtrace_sched_compute((hbtrace_recorder *)run, 0, NULL);
        hbtrace_unlock((hbtrace_recorder *)run);
    }
    return NULL;
}

static void threads(hbtrace_recorder *run) {
    pthread_t all[4];
    int k;
    hbtrace_note(run, "begin", NULL, 0, NULL);
    for (k = 0; k < 4; k++) pthread_create(&all[k], NULL, many, run);
    for (k = 0; k < 4; k++) pthread_join(all[k], NULL);
    pthread_create(&all[0], NULL, many, run); /* may get the identity of one that has ended, but not its number */
    pthread_join(all[0], NULL);
}

static void show(hbtrace_recorder *run, int status) {
    char text[256];
    hbtrace_error(run, text, sizeof text);
    printf("%d %s\n", status, text);
}

static void wrong_range(hbtrace_recorder *run, hbtrace_range range) {
    show(run, hbtrace_kernel(run, 0, &range, 1, NULL, 0, NULL));
}

static void wrong_pick(hbtrace_recorder *run, hbtrace_pick pick) {
    hbtrace_common c = hbtrace_common_unset();
    c.picked = &pick;
    c.pick_count = 1;
    show(run, hbtrace_compute(run, 0, 0, &c));
}

/* Of modules, rows that an index picks, frames, and of what has a function of its own. */
static void wrong_additions(hbtrace_recorder *run) {
    static const char *const none[] = {NULL};
    hbtrace_range part = hbtrace_part(0, 0, 8), by = hbtrace_picked_by(part, 1, 8), nothing = hbtrace_no_range();
    hbtrace_run unset = hbtrace_rows(HBTRACE_NONE, 1), first = hbtrace_rows(0, 1);
    hbtrace_pick pick = hbtrace_pick_rows(1, &first, 1);
    hbtrace_common c = hbtrace_common_unset();
    hbtrace_module module = hbtrace_module_unset();
    hbtrace_meta_keys meta = hbtrace_meta_unset();
    hbtrace_backend_keys backend = hbtrace_backend_unset();
    meta.modules_count = 1;
    show(run, hbtrace_meta(run, &meta, NULL));
    meta.modules = &module;
    module.base = -4096;
    show(run, hbtrace_meta(run, &meta, NULL));
    c.picked = &pick;
    show(run, hbtrace_meta(run, NULL, &c));
    c = hbtrace_common_unset();
    wrong_range(run, hbtrace_picked_by(hbtrace_bytes(0, 0, 8), 1, 8));
    wrong_range(run, hbtrace_strided(by, 2, 8));
    wrong_range(run, hbtrace_strided(by, HBTRACE_NONE, 8));
    wrong_range(run, hbtrace_picked_by(hbtrace_whole(0), 1, 8));
    wrong_range(run, hbtrace_picked_by(part, 1, HBTRACE_NONE));
    wrong_range(run, hbtrace_picked_by(part, 1, 0));
    wrong_range(run, hbtrace_picked_by(part, -2, 8));
    show(run, hbtrace_tensor_set(run, by, NULL));
    show(run, hbtrace_set_async(run, 0, by, nothing, NULL));
    nothing.by = 1;
    show(run, hbtrace_get_async(run, 0, part, nothing, NULL));
    nothing = hbtrace_no_range();
    nothing.pitch = 8;
    show(run, hbtrace_get_async(run, 0, part, nothing, NULL));
    wrong_pick(run, hbtrace_pick_rows(HBTRACE_NONE, &first, 1));
    wrong_pick(run, hbtrace_pick_rows(-1, &first, 1));
    wrong_pick(run, hbtrace_pick_rows(1, NULL, 1));
    wrong_pick(run, hbtrace_pick_rows(1, &unset, 1));
    c.pick_count = 1;
    show(run, hbtrace_kernel(run, 0, NULL, 0, NULL, 0, &c));
    show(run, hbtrace_synchronize(run, 0, &c));
    c.picked = &pick;
    c.pick_count = 0;
    show(run, hbtrace_tensor_set(run, part, &c));
    show(run, hbtrace_graph(run, 0, HBTRACE_NONE, NULL, 0, &c));
    c = hbtrace_common_unset();
    c.duration = -1;
    show(run, hbtrace_synchronize(run, 0, &c));
    c = hbtrace_common_unset();
    c.frame_count = 1;
    show(run, hbtrace_synchronize(run, 0, &c));
    c.frames = none;
    show(run, hbtrace_synchronize(run, 0, &c));
    backend.queue_of = -2;
    show(run, hbtrace_backend(run, 0, "GPU0", &backend, NULL));
    show(run, hbtrace_buffer_free_on(run, 0, HBTRACE_NONE, NULL));
    show(run, hbtrace_buffer_free_on(run, 0, -1, NULL));
    show(run, hbtrace_note_of(run, -2, "n", NULL, 0, NULL));
}

static void wrong(hbtrace_recorder *run) {
    static const char *const full[] = {"fill"}, *const none[] = {NULL};
    hbtrace_backend_keys backend = hbtrace_backend_unset();
    hbtrace_buffer_keys buffer = hbtrace_buffer_unset();
    hbtrace_copy_keys copy = hbtrace_copy_unset();
    hbtrace_common c = hbtrace_common_unset();
    hbtrace_range nothing = hbtrace_no_range(), tensor = hbtrace_whole(0), two = hbtrace_bytes(0, 0, 8);
    hbtrace_attr infinite = hbtrace_attr_number("x", 1e308 * 10), unkept = hbtrace_attr_text("x", NULL), twice[3];
    two.tensor = 1;
    show(run, hbtrace_compute(run, -1, 0, NULL));
    show(run, hbtrace_compute(run, 0, HBTRACE_NONE, NULL));
    show(run, hbtrace_backend(run, 0, NULL, NULL, NULL));
    show(run, hbtrace_backend(run, 0, "HOST", NULL, NULL));
    backend.type = "gp";
    show(run, hbtrace_backend(run, 0, "GPU0", &backend, NULL));
    backend = hbtrace_backend_unset();
    backend.drains = full;
    backend.drains_count = 1;
    show(run, hbtrace_backend(run, 0, "GPU0", &backend, NULL));
    backend = hbtrace_backend_unset();
    backend.accepts = none;
    backend.accepts_count = 1;
    show(run, hbtrace_backend(run, 0, "GPU0", &backend, NULL));
    show(run, hbtrace_buffer(run, 0, "GPU0", -64, NULL, NULL));
    buffer.usage = "any weights";
    show(run, hbtrace_buffer(run, 0, "GPU0", 64, &buffer, NULL));
    show(run, hbtrace_tensor_set(run, hbtrace_part(0, -4, 4), NULL));
    show(run, hbtrace_tensor_set(run, hbtrace_bytes(0, 0, 4), NULL));
    show(run, hbtrace_tensor_set(run, hbtrace_strided(tensor, 2, 0), NULL));
    show(run, hbtrace_kernel(run, 0, &nothing, 1, NULL, 0, NULL));
    show(run, hbtrace_kernel(run, 0, &two, 1, NULL, 0, NULL));
    show(run, hbtrace_kernel(run, 0, NULL, 1, NULL, 0, NULL));
    show(run, hbtrace_graph(run, 0, HBTRACE_NONE, NULL, 1, NULL));
    show(run, hbtrace_note(run, "n", NULL, 2, NULL));
    copy.runs_on = "source";
    show(run, hbtrace_copy_async(run, 0, tensor, tensor, &copy, NULL));
    show(run, hbtrace_tensor_copy(run, tensor, nothing, NULL));
    show(run, hbtrace_release(run, NULL, HBTRACE_NONE, NULL));
    show(run, hbtrace_note(run, "n", &infinite, 1, NULL));
    show(run, hbtrace_note(run, "n", &unkept, 1, NULL));
    twice[0] = hbtrace_attr_int("x", 1);
    twice[1] = hbtrace_attr_int("y", 1);
    twice[2] = hbtrace_attr_flag("x", 1);
    show(run, hbtrace_note(run, "n", twice, COUNT(twice), NULL));
    c.ubatch = -2;
    show(run, hbtrace_sched_reuse(run, 0, &c));
    hbtrace_synchronize(run, 0, NULL);
    show(run, hbtrace_meta(run, NULL, NULL));
}

static void texts(hbtrace_recorder *run) {
    hbtrace_note(run, "quote \" backslash \\ newline \n bell \a delete \x7f", NULL, 0, NULL);
    hbtrace_note(run, "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80", NULL, 0, NULL);
    hbtrace_note(run, "stray \x80, cut \xE2\x82, overlong \xC0\xAF, surrogate \xED\xA0\x80, high \xF4\x90\x80\x80", NULL, 0,
                 NULL);
    hbtrace_note(run, "", NULL, 0, NULL);
}

static void numbers(hbtrace_recorder *run) {
    hbtrace_attr attrs[6];
    attrs[0] = hbtrace_attr_number("whole", 3);
    attrs[1] = hbtrace_attr_number("tenth", 0.1);
    attrs[2] = hbtrace_attr_number("small", -2.5e-300);
    attrs[3] = hbtrace_attr_number("large", 1e300);
    attrs[4] = hbtrace_attr_int("least", INT64_MIN);
    attrs[5] = hbtrace_attr_int("most", INT64_MAX);
    hbtrace_note(run, NULL, attrs, COUNT(attrs), NULL);
}

/* Records until it cannot: how often it was told so, and whether it lives on. */
static void until_stopped(hbtrace_recorder *run) {
    int64_t k;
    int stopped = 0;
    for (k = 0; k < 2000; k++) stopped += hbtrace_ubatch(run, 0, k, HBTRACE_NONE, NULL, NULL) == HBTRACE_STOPPED;
    printf("%d of 2000\n", stopped);
    show(run, HBTRACE_STOPPED);
}

/* The limit comes while it records. Then, what the program finds of the signal that it had blocked, or pending. */
static void limited(hbtrace_recorder *run, int blocked, int pending) {
    struct rlimit limit;
    sigset_t over, now;
    limit.rlim_cur = limit.rlim_max = (rlim_t)10000;
    sigemptyset(&over);
    sigaddset(&over, SIGXFSZ);
    if (blocked) pthread_sigmask(SIG_BLOCK, &over, NULL);
    if (pending) raise(SIGXFSZ);
    hbtrace_synchronize(run, 0, NULL);
    setrlimit(RLIMIT_FSIZE, &limit);
    until_stopped(run);
    sigpending(&now);
    printf("pending: %d, ", sigismember(&now, SIGXFSZ));
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    printf("blocked: %d\n", sigismember(&now, SIGXFSZ));
}

/* A second recorder of the path, while the first one lives. */
static void second(hbtrace_recorder *run, const char *path) {
    char error[512];
    hbtrace_recorder *other = hbtrace_open(path, HBTRACE_FORCE, error, sizeof error);
    printf("%s\n", other == NULL ? error : "opened");
    hbtrace_note(run, "first", NULL, 0, NULL);
}

/* The spool is taken away, or another file is in its place. */
static void without_spool(const char *path, int replaced) {
    char spool[512];
    FILE *file;
    snprintf(spool, sizeof spool, "%s.spool.jsonl", path);
    remove(spool);
    if (!replaced || (file = fopen(spool, "w")) == NULL) return;
    fputs("another's", file);
    fclose(file);
}

static void forever(hbtrace_recorder *run) {
    int64_t k;
    for (k = 0;; k++) {
        hbtrace_ubatch(run, 0, k, HBTRACE_NONE, NULL, NULL);
        printf("%lld\n", (long long)k);
        fflush(stdout);
    }
}

static void fork_in_between(hbtrace_recorder *run) {
    pid_t child;
    int status = 0;
    hbtrace_note(run, "before", NULL, 0, NULL);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        show(run, hbtrace_note(run, "in the child", NULL, 0, NULL));
        fflush(stdout);
        _exit(hbtrace_close(run) == HBTRACE_OK ? 0 : 1);
    }
    waitpid(child, &status, 0);
    printf("the child ended with %d\n", status);
    hbtrace_note(run, "after", NULL, 0, NULL);
}

int main(int count, char **words) {
    const char *what = count == 3 ? words[1] : "", *path = count == 3 ? words[2] : "";
    hbtrace_recorder *run;
    if (strcmp(what, "off") == 0) {
        everything(hbtrace_open(NULL, 0, NULL, 0));
        printf("%d %d\n", hbtrace_compute(NULL, -5, 0, NULL), hbtrace_close(NULL));
        return 0;
    }
    run = open_or_die(path, strcmp(what, "force") == 0 ? HBTRACE_FORCE : strcmp(what, "race") == 0 ? HBTRACE_NO_TIMES : 0);
    if (strcmp(what, "everything") == 0) everything(run);
    if (strcmp(what, "race") == 0) two_ubatches(run, 0);
    if (strcmp(what, "mended") == 0) two_ubatches(run, 1);
    if (strcmp(what, "threads") == 0) threads(run);
    if (strcmp(what, "wrong") == 0) wrong(run);
    if (strcmp(what, "wrong_additions") == 0) wrong_additions(run);
    if (strcmp(what, "fewer_keys") == 0) fewer_keys(run);
    if (strcmp(what, "picked") == 0) picked(run);
    if (strcmp(what, "texts") == 0) texts(run);
    if (strcmp(what, "numbers") == 0) numbers(run);
    if (strcmp(what, "until_stopped") == 0) until_stopped(run);
    if (strcmp(what, "limited") == 0) limited(run, 0, 0);
    if (strcmp(what, "limited_blocked") == 0) limited(run, 1, 0);
    if (strcmp(what, "limited_pending") == 0) limited(run, 1, 1);
    if (strcmp(what, "second") == 0) second(run, path);
    if (strcmp(what, "removed") == 0) without_spool(path, 0);
    if (strcmp(what, "replaced") == 0) without_spool(path, 1);
    if (strcmp(what, "forever") == 0) forever(run);
    if (strcmp(what, "fork") == 0) fork_in_between(run);
    printf("closed: %d\n", hbtrace_close(run));
    return 0;
}
