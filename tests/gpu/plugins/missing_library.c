/* A plug-in that needs a library which is not found, as cuDNN is not on most machines. */
int something_else(void);
const void* assay_cuda_plugin(void);
const void* assay_cuda_plugin(void) { return something_else() != 0 ? assay_cuda_plugin : 0; }
