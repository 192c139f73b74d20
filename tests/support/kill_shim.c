/* Ends, or stops, the process that makes the N-th call of a kind. Loaded with LD_PRELOAD, compiled by kill_point.py.
 *
 * Kinds go by what a call is for, not by its name: a file is written, a file is brought to the disk, bytes are sent to
 * somebody (libuv writes to sockets). Logs, pipes and event counters are left out: nothing comes of them.
 * Nothing is counted before the file named by KILL_CONTROL exists; several processes may share one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NOTHING, WRITE, SYNC, SEND };
enum { BEFORE, HALF, AFTER };

/* Read and written by kill_point.py as well: nine native words. */
struct control {
    uint64_t armed; /* a kind */
    uint64_t number;
    uint64_t moment;
    uint64_t signal;
    uint64_t fired; /* the process id */
    uint64_t counts[4];
};

static struct control *volatile control;

static struct control *find(void)
{
    if (control)
        return control;
    const char *path = getenv("KILL_CONTROL");
    if (!path)
        return NULL;
    int saved = errno, file = open(path, O_RDWR | O_CLOEXEC);
    if (file >= 0) {
        void *at = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (at != MAP_FAILED)
            control = at;
    }
    errno = saved;
    return control;
}

/* Count a call; what is to be done about it, or -1. */
static int counted(int kind)
{
    struct control *c = kind == NOTHING ? NULL : find();
    if (!c)
        return -1;
    uint64_t number = __atomic_add_fetch(&c->counts[kind], 1, __ATOMIC_SEQ_CST);
    uint64_t nobody = 0;
    if (c->armed != (uint64_t)kind || number != c->number)
        return -1;
    if (!__atomic_compare_exchange_n(&c->fired, &nobody, (uint64_t)getpid(), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return -1;
    return (int)c->moment;
}

static void end(void)
{
    int saved = errno;
    syscall(SYS_kill, getpid(), (int)control->signal); /* of SIGSTOP one comes back */
    errno = saved;
}

static int kind_of(int fd)
{
    struct stat about;
    int saved = errno, kind = NOTHING;
    if (fd > 2 && fstat(fd, &about) == 0)
        kind = S_ISREG(about.st_mode) ? WRITE : S_ISSOCK(about.st_mode) ? SEND : NOTHING;
    errno = saved;
    return kind;
}

#define REAL(type, name, ...) static type (*real)(__VA_ARGS__); if (!real) real = dlsym(RTLD_NEXT, name)

/* The call whole, half, or not at all, and the end around it. */
#define CALL(kind, whole, half)                                   \
    int moment = counted(kind);                                   \
    if (moment == BEFORE) end();                                  \
    if (moment == HALF) { ssize_t done = (half); end(); return done; } \
    ssize_t result = (whole);                                     \
    if (moment == AFTER) end();                                   \
    return result

ssize_t write(int fd, const void *data, size_t size)
{
    REAL(ssize_t, "write", int, const void *, size_t);
    CALL(kind_of(fd), real(fd, data, size), real(fd, data, (size + 1) / 2));
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    CALL(kind_of(fd), real(fd, parts, count), real(fd, parts, (count + 1) / 2));
}

#define PWRITE(name)                                                                 \
    ssize_t name(int fd, const void *data, size_t size, off_t at)                    \
    {                                                                                \
        REAL(ssize_t, #name, int, const void *, size_t, off_t);                      \
        CALL(kind_of(fd), real(fd, data, size, at), real(fd, data, (size + 1) / 2, at)); \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

#define PWRITEV(name)                                                                \
    ssize_t name(int fd, const struct iovec *parts, int count, off_t at)             \
    {                                                                                \
        REAL(ssize_t, #name, int, const struct iovec *, int, off_t);                 \
        CALL(kind_of(fd), real(fd, parts, count, at), real(fd, parts, (count + 1) / 2, at)); \
    }
PWRITEV(pwritev)
PWRITEV(pwritev64)

#define SYNCHRONIZE(name)                              \
    int name(int fd)                                   \
    {                                                  \
        REAL(int, #name, int);                         \
        CALL(SYNC, real(fd), real(fd));                \
    }
SYNCHRONIZE(fsync)
SYNCHRONIZE(fdatasync)

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    REAL(ssize_t, "send", int, const void *, size_t, int);
    CALL(SEND, real(fd, data, size, flags), real(fd, data, (size + 1) / 2, flags));
}

ssize_t sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t length)
{
    REAL(ssize_t, "sendto", int, const void *, size_t, int, const struct sockaddr *, socklen_t);
    CALL(SEND, real(fd, data, size, flags, to, length), real(fd, data, (size + 1) / 2, flags, to, length));
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    REAL(ssize_t, "sendmsg", int, const struct msghdr *, int);
    CALL(SEND, real(fd, message, flags), real(fd, message, flags));
}
