/* What the Go side of callbacks and the library's have in common. */
#include <assay/assay_data.h>

typedef void (*assay_go_give)(void* to, const assay_picture* page);

/* The picture lies here, as memory of Go must not hold pointers to memory of Go. */
static inline void assay_go_give_picture(assay_go_give give, void* to, int32_t height,
                                         int32_t width, int32_t channels, int32_t bits,
                                         int64_t row_bytes, const void* data) {
  const assay_picture page = {sizeof page, NULL, height, width, channels, bits, row_bytes, data};
  give(to, &page);
}

static inline void assay_go_give_part(assay_give give, void* to, assay_str name, assay_dtype dtype,
                                      const void* data, size_t elements) {
  give(to, name, dtype, data, elements);
}
