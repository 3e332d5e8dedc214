#include "tests/capi/system_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace {

std::atomic<int64_t> calls{0}, failing_call{0};
std::atomic<int> error_to_give{0};
std::atomic<const char*> failed{""};

bool is_of(void* caller, const char* library) {
  Dl_info info;
  return dladdr(caller, &info) != 0 && std::strstr(info.dli_fname, library) != nullptr;
}

bool is_due(const char* name) {
  if (++calls != failing_call) return false;
  failed = name;
  return true;
}

// Whether the call is to fail; then errno says why.
bool fails(const char* name, void* caller) {
  if (!is_of(caller, "libassay.so") || !is_due(name) || error_to_give == assay::test::kShort)
    return false;
  errno = error_to_give;
  return true;
}

// The same for calls that can also be short: `bytes` becomes what they transfer.
bool fails(const char* name, void* caller, size_t& bytes) {
  if (!is_of(caller, "libassay.so") || !is_due(name)) return false;
  if (error_to_give == assay::test::kShort) {
    if (bytes > 1) --bytes;
    return false;
  }
  errno = error_to_give;
  return true;
}

template <class F>
F* next(F* /*same*/, const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

int64_t assay::test::fail_system_call(int64_t n, int error) {
  failing_call = -1;
  const int64_t made = calls.exchange(0);
  failed = "";
  error_to_give = error;
  failing_call = n;
  return made;
}

const char* assay::test::failed_system_call() { return failed; }

// Definitions in the program come before those of libc for every library. In each, the caller is
// whoever called it.
#define CALLER __builtin_return_address(0)

#pragma GCC visibility push(default)
extern "C" {
int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  static const auto kReal = next(&open, "open");
  return fails("open", CALLER) ? -1 : kReal(path, flags, mode);
}
ssize_t read(int file, void* to, size_t bytes) {
  static const auto kReal = next(&read, "read");
  return fails("read", CALLER, bytes) ? -1 : kReal(file, to, bytes);
}
ssize_t pread(int file, void* to, size_t bytes, off_t at) {
  static const auto kReal = next(&pread, "pread");
  return fails("pread", CALLER, bytes) ? -1 : kReal(file, to, bytes, at);
}
ssize_t write(int file, const void* from, size_t bytes) {
  static const auto kReal = next(&write, "write");
  return fails("write", CALLER, bytes) ? -1 : kReal(file, from, bytes);
}
int fsync(int /*file*/) { return fails("fsync", CALLER) ? -1 : 0; }  // no test outlives the machine
int fstat(int file, struct stat* to) noexcept {
  static const auto kReal = next(&fstat, "fstat");
  return fails("fstat", CALLER) ? -1 : kReal(file, to);
}
int stat(const char* path, struct stat* to) noexcept {
  static const auto kReal = next(static_cast<int (*)(const char*, struct stat*)>(&stat), "stat");
  return fails("stat", CALLER) ? -1 : kReal(path, to);
}
int rename(const char* from, const char* to) noexcept {
  static const auto kReal = next(&rename, "rename");
  return fails("rename", CALLER) ? -1 : kReal(from, to);
}
int unlink(const char* path) noexcept {
  static const auto kReal = next(&unlink, "unlink");
  return fails("unlink", CALLER) ? -1 : kReal(path);
}
int mkdir(const char* path, mode_t mode) noexcept {
  static const auto kReal = next(&mkdir, "mkdir");
  return fails("mkdir", CALLER) ? -1 : kReal(path, mode);
}
int flock(int file, int what) noexcept {
  static const auto kReal = next(&flock, "flock");
  return fails("flock", CALLER) ? -1 : kReal(file, what);
}
int close(int file) {
  static const auto kReal = next(&close, "close");
  const int result = kReal(file);  // Linux closes it whatever it reports
  return fails("close", CALLER) ? -1 : result;
}
int getentropy(void* to, size_t bytes) {
  static const auto kReal = next(&getentropy, "getentropy");
  return fails("getentropy", CALLER) ? -1 : kReal(to, bytes);
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* with) noexcept {
  static const auto kReal = next(&pthread_create, "pthread_create");
  const bool counts = is_of(CALLER, "libassay.so") || is_of(CALLER, "libstdc++.so");
  return counts && is_due("pthread_create") && error_to_give != assay::test::kShort
             ? EAGAIN
             : kReal(thread, attributes, run, with);
}
}
#pragma GCC visibility pop
