/* A library in the place of NVML: a GPU whose clock falls from sample to sample, for GpuWatch. */
#include <stdlib.h>

static unsigned samples;

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }

/* It has one GPU, number 3. */
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &samples;
  return index == 3 ? 0 : 2;
}

int nvmlDeviceGetClockInfo(void* device, unsigned type, unsigned* megahertz) {
  if (type != 1) return 2;
  *megahertz = *(unsigned*)device == 0 ? 2000 : 1500;
  ++*(unsigned*)device;
  return 0;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = getenv("FAKE_NVML_REASONS") ? strtoull(getenv("FAKE_NVML_REASONS"), NULL, 0) : 0;
  return 0;
}

struct process {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};

/* FAKE_NVML_PROCESS: "17" or "17,18". */
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, struct process* list) {
  const char* next = getenv("FAKE_NVML_PROCESS");
  *count = 0;
  while (next != NULL && *next != '\0') {
    char* end;
    list[(*count)++].pid = (unsigned)strtoul(next, &end, 10);
    next = *end == ',' ? end + 1 : end;
  }
  return 0;
}
