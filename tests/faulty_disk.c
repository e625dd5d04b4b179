/* A disk that fails: loaded before the C library, it counts the writes, syncs, truncations and
   removals of the files whose path begins with a prefix.  The k-th of them fails, or writes half,
   or is the moment of a power cut: what was not synced is lost, all of it or some, and the process
   ends at once.  One thread at a time; names in folders are not lost. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COUNT, ERROR, HALF, POWER_CUT };

struct change {                 /* a write or truncation that was not synced */
    char path[512];
    off_t offset, size_before;
    size_t length, kept;        /* bytes written, bytes that were there before */
    char *before;
    struct change *earlier;
};

static char prefix[512];
static int mode, armed;
static long left, seen, hits;
static struct change *unsynced;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void disk_arm(const char *where, int what, long at, unsigned seed) {
    strncpy(prefix, where, sizeof prefix - 1);
    mode = what, left = at, seen = 0, hits = 0, armed = 1, unsynced = NULL;
    srand(seed);
}
void disk_disarm(void) { armed = 0; }
long disk_seen(void) { return seen; }
long disk_hits(void) { return hits; }

static int ours(const char *path) { return !strncmp(path, prefix, strlen(prefix)); }

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, 511);
    if (n < 0) return 0;
    path[n] = 0;
    return ours(path);
}

static void power_cut(void) {
    int everything = rand() % 2;
    armed = 0;
    for (struct change *c = unsynced; c; c = c->earlier) {
        if (!everything && rand() % 2) continue;
        int fd = open(c->path, O_WRONLY);
        if (fd < 0) continue;
        static char zeros[1 << 16];
        REAL(pwrite)(fd, c->before, c->kept, c->offset);
        for (size_t at = c->kept; at < c->length; at += sizeof zeros) {
            size_t n = c->length - at < sizeof zeros ? c->length - at : sizeof zeros;
            REAL(pwrite)(fd, zeros, n, c->offset + (off_t)at);
        }
        if (everything && REAL(ftruncate)(fd, c->size_before)) _exit(70);
        close(fd);
    }
    _exit(77);
}

static void note(const char *path, int fd, off_t offset, size_t length) {
    struct change *c = calloc(1, sizeof *c);
    struct stat status;
    if (mode != POWER_CUT) { free(c); return; }
    strcpy(c->path, path);
    fstat(fd, &status);
    c->offset = offset, c->length = length, c->size_before = status.st_size;
    c->before = malloc(length ? length : 1);
    ssize_t n = pread(fd, c->before, length, offset);   /* an append-only file has none */
    c->kept = n < 0 ? 0 : (size_t)n;
    c->earlier = unsynced, unsynced = c;
}

static void synced(const char *path) {
    struct change **c = &unsynced;
    while (*c)
        if (!strcmp((*c)->path, path)) *c = (*c)->earlier; else c = &(*c)->earlier;
}

/* 1: this call is the one that fails. */
static int due(void) {
    seen++;
    if (mode == COUNT || --left) return 0;
    hits++;
    if (mode == POWER_CUT) power_cut();
    return 1;
}

#define WRITE(name, type)                                                              \
    ssize_t name(int fd, const void *bytes, size_t n, type offset) {                   \
        char path[512];                                                                \
        if (armed && path_of(fd, path)) {                                   \
            if (due()) {                                                               \
                if (mode == HALF && n > 1) return REAL(name)(fd, bytes, n / 2, offset); \
                errno = EIO;                                                           \
                return -1;                                                             \
            }                                                                          \
            note(path, fd, offset, n);                                                 \
        }                                                                              \
        return REAL(name)(fd, bytes, n, offset);                                       \
    }
WRITE(pwrite, off_t)
WRITE(pwrite64, off64_t)

ssize_t write(int fd, const void *bytes, size_t n) {
    char path[512];
    if (armed && path_of(fd, path)) {
        if (due()) {
            if (mode == HALF && n > 1) return REAL(write)(fd, bytes, n / 2);
            errno = EIO;
            return -1;
        }
        struct stat status;
        fstat(fd, &status);
        note(path, fd, fcntl(fd, F_GETFL) & O_APPEND ? status.st_size : lseek(fd, 0, SEEK_CUR), n);
    }
    return REAL(write)(fd, bytes, n);
}

#define SYNC(name)                                       \
    int name(int fd) {                                   \
        char path[512];                                  \
        if (armed && path_of(fd, path)) {                \
            if (due()) { errno = EIO; return -1; }       \
            synced(path);                                \
        }                                                \
        return REAL(name)(fd);                           \
    }
SYNC(fsync)
SYNC(fdatasync)

#define TRUNCATE(name, type)                                                              \
    int name(int fd, type size) {                                                         \
        char path[512];                                                                   \
        struct stat status;                                                               \
        if (armed && path_of(fd, path)) {                                                 \
            if (due()) { errno = EIO; return -1; }                                        \
            fstat(fd, &status);                                                           \
            if (size < status.st_size) note(path, fd, size, (size_t)(status.st_size - size)); \
        }                                                                                 \
        return REAL(name)(fd, size);                                                      \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

int unlink(const char *path) {
    if (armed && ours(path) && due()) { errno = EIO; return -1; }
    return REAL(unlink)(path);
}
