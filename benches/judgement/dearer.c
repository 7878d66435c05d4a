/* Makes a program dearer: before each send it works for BUSY_NS nanoseconds of its own CPU time. Loaded with LD_PRELOAD, so that the program itself
   is the one that is compared. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

static long busy_ns;
static ssize_t (*real_send)(int, const void *, size_t, int);
static ssize_t (*real_sendmsg)(int, const struct msghdr *, int);
static ssize_t (*real_writev)(int, const struct iovec *, int);

__attribute__((constructor)) static void begin(void) {
  const char *text = getenv("BUSY_NS");
  busy_ns = text ? atol(text) : 0;
  real_send = dlsym(RTLD_NEXT, "send");
  real_sendmsg = dlsym(RTLD_NEXT, "sendmsg");
  real_writev = dlsym(RTLD_NEXT, "writev");
}

static void work(void) {
  struct timespec begun, now;
  clock_gettime(CLOCK_MONOTONIC, &begun);
  do clock_gettime(CLOCK_MONOTONIC, &now);
  while ((now.tv_sec - begun.tv_sec) * 1000000000L + now.tv_nsec - begun.tv_nsec < busy_ns);
}

ssize_t send(int fd, const void *bytes, size_t length, int flags) {
  work();
  return real_send(fd, bytes, length, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
  work();
  return real_sendmsg(fd, message, flags);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  work();
  return real_writev(fd, parts, count);
}
