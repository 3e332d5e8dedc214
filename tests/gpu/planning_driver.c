/* In the place of NVIDIA's driver, for planning where there is none: cuDNN compiles attention and
   has the driver load it before it says what that needs. Loading succeeds, with nothing behind it.
 */

static char kernel;

/* No device, as CUDA's runtime is told. */
int cuInit(void);
int cuInit(void) { return 100; }

int cuLibraryLoadData(void** library);
int cuLibraryLoadData(void** library) {
  *library = &kernel;
  return 0;
}
int cuLibraryGetKernel(void** found);
int cuLibraryGetKernel(void** found) {
  *found = &kernel;
  return 0;
}

/* What must be there as well. */
#define SUCCEEDS(name) \
  int name(void);      \
  int name(void) { return 0; }
SUCCEEDS(cuCtxGetCurrent)
SUCCEEDS(cuCtxGetLimit)
SUCCEEDS(cuCtxPopCurrent)
SUCCEEDS(cuCtxPushCurrent)
SUCCEEDS(cuDeviceGet)
SUCCEEDS(cuDeviceGetCount)
SUCCEEDS(cuDriverGetVersion)
SUCCEEDS(cuGetErrorName)
SUCCEEDS(cuGetErrorString)
SUCCEEDS(cuKernelGetAttribute)
SUCCEEDS(cuKernelSetAttribute)
SUCCEEDS(cuLaunchCooperativeKernel)
SUCCEEDS(cuLaunchKernel)
SUCCEEDS(cuLaunchKernelEx)
SUCCEEDS(cuLibraryLoadFromFile)
SUCCEEDS(cuLibraryUnload)
SUCCEEDS(cuLinkAddData)
SUCCEEDS(cuLinkComplete)
SUCCEEDS(cuLinkCreate)
SUCCEEDS(cuLinkDestroy)
SUCCEEDS(cuOccupancyMaxPotentialClusterSize)
SUCCEEDS(cuStreamGetCtx)
