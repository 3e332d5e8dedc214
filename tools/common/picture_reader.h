// Image files of the formats OpenCV knows, for assay_host.read_image.
#pragma once

#include <assay/assay.h>

namespace assay::tools {

// Decodes all pages of a file (PNG, TIFF, BMP, WebP, ...) with 8 or 16 bits per channel, at most
// kMostPixels (picture_check.h); not 0, before any page is given, where one of them cannot be
// decoded. Any number of threads may call at once. `user` is not looked at.
int32_t read_pictures(uintptr_t user, const void* file, size_t size,
                      void (*give)(void* to, const assay_picture* page), void* to);

}  // namespace assay::tools
