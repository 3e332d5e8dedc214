// Whether a picture file is whole, found out before OpenCV decodes it. OpenCV keeps what it can get
// of a damaged TIFF, the pages before the damage or rows without their pixels, and says nothing;
// and a few bytes can promise gigabytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace assay::tools {

// The largest picture that is decoded, its pages together: 1,024 slices of 512 x 512.
inline constexpr int64_t kMostPixels = int64_t{1} << 28;

// Pages of the file, whose bytes also lie at `path`. None if a page of a TIFF is missing or cannot
// be decoded, has more than 4 channels or more than 16 bits each, or if a TIFF or PNG is larger
// than kMostPixels. Files of other formats have one page, and what their decoder makes of it.
std::optional<size_t> whole_pages(std::string_view file, const std::string& path);

}  // namespace assay::tools
