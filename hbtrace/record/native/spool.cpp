#include "spool.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "row.hpp"

namespace hbt::spool {

namespace {

constexpr off_t chunk = 1 << 20;
constexpr off_t reserve = 256;  // kept free for the note that says why the trace ends

struct File {
    int descriptor = -1;
    dev_t device = 0;
    ino_t inode = 0;
    bool tried = false;
    bool stopped = false;
    bool mapped = true;  // false: the file system cannot, or the process is at its end
    char * window = nullptr;
    off_t window_start = 0;
    off_t written = 0;
    off_t allocated = 0;
    off_t limit = 0;
    std::string row;
};

File & file = *new File;  // never destroyed: events come until the very end of the process
int64_t started;

int64_t clock_ns() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

// A file beyond the process's limit of sizes is an error here, not the signal that would end the program.
class SizeSignal {
  public:
    SizeSignal() {
        sigemptyset(&set_);
        sigaddset(&set_, SIGXFSZ);
        pthread_sigmask(SIG_BLOCK, &set_, &old_);
    }
    ~SizeSignal() { pthread_sigmask(SIG_SETMASK, &old_, nullptr); }
    void met() {
        timespec none{};
        sigtimedwait(&set_, nullptr, &none);
    }

  private:
    sigset_t set_, old_;
};

// Daemons close descriptors that they do not know, and the number is the program's next file then.
bool is_ours() {
    struct stat now {};
    return fstat(file.descriptor, &now) == 0 && now.st_dev == file.device && now.st_ino == file.inode;
}

int allocate(off_t start, off_t size) {
    if (!is_ours()) return EBADF;
    SizeSignal signal;
    int error = posix_fallocate(file.descriptor, start, size);
    if (error == EFBIG) signal.met();
    return error;
}

// Blocks for what is to be written and the note after it: storing to a page that has none would end the program.
int make_room(off_t size) {
    off_t needed = file.written + size + reserve;
    if (needed <= file.allocated) return 0;
    int error = 0;
    // Where there is no room for much, page by page to the very end of it.
    for (off_t unit : {chunk, off_t(4096)}) {
        off_t next = (needed + unit - 1) / unit * unit;
        error = allocate(file.allocated, next - file.allocated);
        if (error == 0) {
            file.allocated = next;
            break;
        }
    }
    return error;
}

const char * why(int error) {
    if (error == EBADF) return "descriptor_closed";
    return error == ENOSPC || error == EDQUOT ? "disk_full" : "write_failed";
}

void unmap() {
    if (file.window != nullptr) munmap(file.window, chunk);
    file.window = nullptr;
}

bool map_at(off_t start) {
    unmap();
    if (!is_ours()) return false;
    // With its pages: a fault at every fourth kilobyte of a trace would cost more than the rows do.
    int flags = MAP_SHARED | MAP_POPULATE;
    void * window = mmap(nullptr, chunk, PROT_READ | PROT_WRITE, flags, file.descriptor, start);
    if (window == MAP_FAILED) return false;
    file.window = static_cast<char *>(window);
    file.window_start = start;
    return true;
}

void write_by_call(const char * data, size_t size) {
    if (size == 0) return;
    if (!is_ours()) {
        file.stopped = true;
        return;
    }
    SizeSignal signal;
    off_t start = file.written;
    while (size > 0) {
        ssize_t n = pwrite(file.descriptor, data, size, file.written);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            if (errno == EFBIG) signal.met();
            file.stopped = true;
            (void) !ftruncate(file.descriptor, start);  // whole lines only
            return;
        }
        data += n, size -= size_t(n), file.written += n;
    }
}

// There is room for it.
void put(const char * data, size_t size) {
    while (size > 0 && file.mapped) {
        off_t at = file.written - file.window_start;
        if (file.window == nullptr || at >= chunk) {
            if (!map_at(file.written / chunk * chunk)) close_mapping();
            continue;
        }
        size_t piece = std::min(size, size_t(chunk - at));
        memcpy(file.window + at, data, piece);
        data += piece, size -= piece, file.written += off_t(piece);
    }
    write_by_call(data, size);
}

// Nothing else tells that this process is not recorded: the launcher finds no trace of it.
void complain(const std::string & path, int error) {
    std::string line = "hbtrace: this process is not recorded: " + path + ": " + strerror(error) + '\n';
    (void) !write(2, line.data(), line.size());
}

// To a number that a program neither counts on nor reaches. The lowest ones it has closed itself, perhaps: the next file
// there is its standard output.
int moved_up(int descriptor) {
    for (int least : {800, 100, 3}) {
        int higher = fcntl(descriptor, F_DUPFD_CLOEXEC, least);
        if (higher < 0) continue;
        close(descriptor);
        return higher;
    }
    if (descriptor > 2) return descriptor;
    close(descriptor);
    return -1;
}

// The file is this process's while it lives: the launcher, which may end before, leaves a claimed one alone. It would cut
// the pages off that are mapped here, and a store to them would end the program. False: the launcher was faster.
bool claim() {
    struct stat now {};
    bool held = flock(file.descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    if (held && fstat(file.descriptor, &now) == 0) {
        file.device = now.st_dev, file.inode = now.st_ino;
        return true;
    }
    close(file.descriptor);
    file.descriptor = -1;
    return false;
}

}  // namespace

std::mutex & lock() {
    static std::mutex mutex;
    return mutex;
}

bool open() {
    if (file.descriptor >= 0) return !file.stopped;
    if (file.tried) return false;
    file.tried = true;
    const char * prefix = getenv("HBTRACE_RECORD_SPOOL");
    if (prefix == nullptr || *prefix == '\0') return false;
    std::string base = std::string(prefix) + "." + std::to_string(getpid());
    for (int number = 1; file.descriptor < 0 && number < 1000; number++) {
        // The same process can have had one before: an exec begins anew.
        std::string path = base + (number > 1 ? "-" + std::to_string(number) : "") + ".jsonl";
        file.descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (file.descriptor < 0 && errno != EEXIST) {
            complain(path, errno);
            return false;
        }
    }
    if (file.descriptor >= 0) file.descriptor = moved_up(file.descriptor);
    if (file.descriptor < 0 || !claim()) return false;
    if (const char * limit = getenv("HBTRACE_RECORD_MAX_SIZE")) file.limit = off_t(strtoll(limit, nullptr, 10));
    started = clock_ns();
    return true;
}

std::string & row() { return file.row; }

void row_done() {
    auto size = off_t(file.row.size());
    if (file.written == 0 && !file.stopped) {
        // The first row before any room is made: a file of nothing but room is no trace if the program is killed now.
        write_by_call(file.row.data(), file.row.size());
        file.row.clear();
        return;
    }
    if (file.limit > 0 && file.written + size > file.limit) {
        stop("max_size", file.limit);
    } else if (int error = file.stopped || !file.mapped ? 0 : make_room(size)) {
        stop(why(error), error);
    }
    if (!file.stopped) put(file.row.data(), file.row.size());
    file.row.clear();
}

void stop(const char * reason, int64_t number) {
    if (file.stopped) return;
    file.stopped = true;
    std::string line, attrs;
    Json(attrs).text("reason", reason).number("number", number).close();
    Json note(line);
    note.text("ev", "note").text("what", "recording_stopped").raw("attrs", attrs).close();
    line += '\n';
    // The second row may be the one that there is no room for: none is made before it.
    if (file.allocated == 0 && file.mapped) make_room(0);
    if (file.written + off_t(line.size()) <= file.allocated) put(line.data(), line.size());
    close_mapping();
}

void close_mapping() {
    if (file.descriptor < 0 || !file.mapped) return;
    unmap();
    file.mapped = false;
    if (is_ours() && ftruncate(file.descriptor, file.written) == 0) file.allocated = file.written;
}

int64_t now() { return clock_ns() - started; }

void forget() {
    unmap();
    if (file.descriptor >= 0 && is_ours()) close(file.descriptor);
    file = File{};
}

}  // namespace hbt::spool
