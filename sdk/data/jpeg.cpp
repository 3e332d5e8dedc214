// libjpeg-turbo behind two functions and a class: its errors become exceptions, its limits are set
// against hostile files, and only the window's rows and columns are decoded.
#include "sdk/data/jpeg.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include <jpeglib.h>

#include <jerror.h>  // what it declares depends on jpeglib.h

#include "sdk/base/error.h"

namespace assay::data {
namespace {

// What a progressive image of kMaxImagePixels without subsampling needs stays below.
constexpr long kMaxDecoderBytes = 2L << 30;
// Encoders write about ten; files made to waste time have thousands.
constexpr int kMaxScans = 200;
// Chroma upsampling looks at the neighbours, so the columns at the edges of a crop are computed
// right only with a block of the image around them.
constexpr int kMargin = 16;

// libjpeg reports through functions that must not return; they jump back to `attempt`.
struct ErrorManager {
  jpeg_error_mgr base;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void jump_back(j_common_ptr codec) {
  auto* errors = reinterpret_cast<ErrorManager*>(codec->err);
  codec->err->format_message(codec, errors->message);
  std::longjmp(errors->back, 1);
}

// libjpeg goes on after these with made-up pixels. Other warnings cost no pixel.
bool loses_pixels(int warning) {
  return warning == JWRN_JPEG_EOF || warning == JWRN_HIT_MARKER || warning == JWRN_HUFF_BAD_CODE ||
         warning == JWRN_ARITH_BAD_CODE || warning == JWRN_MUST_RESYNC;
}

void on_message(j_common_ptr codec, int level) {
  if (level < 0 && loses_pixels(codec->err->msg_code)) jump_back(codec);
}

void stay_silent(j_common_ptr) {}

void install(ErrorManager& errors) {
  jpeg_std_error(&errors.base);
  errors.base.error_exit = jump_back;
  errors.base.emit_message = on_message;
  errors.base.output_message = stay_silent;
}

void limit_scans(j_common_ptr codec) {
  if (reinterpret_cast<j_decompress_ptr>(codec)->input_scan_number > kMaxScans) {
    ERREXIT(codec, JERR_BAD_PROGRESSION);
  }
}

// Calls libjpeg; false when it jumped back. `work` must hold nothing that needs a destructor.
template <class Work>
bool attempt(ErrorManager& errors, Work&& work) {
  if (setjmp(errors.back) != 0) return false;
  work();
  return true;
}

// Collects a file in a string. (What libjpeg has for memory leaves the pointer to a freed block
// behind when it cannot get a larger one.)
struct StringDestination {
  jpeg_destination_mgr base;
  std::string file;
};
static_assert(std::is_standard_layout_v<StringDestination>);

StringDestination& destination_of(j_compress_ptr codec) {
  return *reinterpret_cast<StringDestination*>(codec->dest);
}

// Doubles the room, of which all is used. Exceptions must not pass through libjpeg.
boolean enlarge(j_compress_ptr codec) {
  constexpr size_t kFirstBytes = size_t{1} << 16;
  StringDestination& to = destination_of(codec);
  const size_t used = to.file.size();
  bool enlarged = true;
  try {
    to.file.resize(std::max(kFirstBytes, 2 * used));
  } catch (const std::bad_alloc&) {
    enlarged = false;
  }
  if (!enlarged) ERREXIT1(codec, JERR_OUT_OF_MEMORY, 0);
  to.base.next_output_byte = reinterpret_cast<JOCTET*>(to.file.data()) + used;
  to.base.free_in_buffer = to.file.size() - used;
  return TRUE;
}

void begin_file(j_compress_ptr codec) { enlarge(codec); }

void end_file(j_compress_ptr codec) {
  StringDestination& to = destination_of(codec);
  to.file.resize(to.file.size() - to.base.free_in_buffer);
}

// x * y / 255, rounded.
uint8_t share(int x, int y) {
  const int product = x * y + 128;
  return static_cast<uint8_t>((product + (product >> 8)) >> 8);
}

void cmyk_to_rgbx(uint8_t* row, int pixels) {
  for (int i = 0; i < pixels; ++i, row += 4) {
    const int key = row[3];  // all four are stored inverted: 255 is no ink
    for (int c = 0; c < 3; ++c) row[c] = share(row[c], key);
  }
}

JpegColor color_of(const jpeg_decompress_struct& codec) {
  switch (codec.jpeg_color_space) {
    case JCS_GRAYSCALE:
      return JpegColor::kGrey;
    case JCS_CMYK:
    case JCS_YCCK:
      return JpegColor::kCmyk;
    case JCS_RGB:
    case JCS_YCbCr:
      return JpegColor::kColor;
    default:
      fail(Code::kUnsupported,
           cat("the JPEG has ", codec.num_components,
               " colour components, expected 1 (grey), 3 (colour) or 4 (CMYK)"));
  }
}

}  // namespace

struct JpegDecoder::State {
  State() {
    install(errors);
    codec.err = &errors.base;
    progress.progress_monitor = limit_scans;
  }
  ~State() { jpeg_destroy_decompress(&codec); }

  // For a new file. A codec that is used again keeps the tables of the last one, and shows a file
  // that lacks some with those of another.
  void begin() {
    jpeg_destroy_decompress(&codec);
    require(attempt(errors, [this] { jpeg_create_decompress(&codec); }), Code::kOutOfHostMemory,
            "libjpeg: ", errors.message);
    codec.mem->max_memory_to_use = kMaxDecoderBytes;
    codec.progress = &progress;
  }

  template <class Work>
  void call(Work&& work) {
    if (attempt(errors, work)) return;
    const int code = errors.base.msg_code;
    jpeg_abort_decompress(&codec);
    require(code != JERR_OUT_OF_MEMORY, Code::kOutOfHostMemory,
            "decoding a JPEG: ", errors.message);
    const bool unsupported = code == JERR_BAD_PRECISION || code == JERR_SOF_UNSUPPORTED ||
                             code == JERR_NO_BACKING_STORE || code == JERR_ARITH_NOTIMPL;
    if (unsupported)
      fail(Code::kUnsupported, cat("this kind of JPEG is not read: ", errors.message));
    fail(Code::kFormat, cat("the JPEG cannot be decoded: ", errors.message));
  }

  jpeg_decompress_struct codec{};
  ErrorManager errors{};
  jpeg_progress_mgr progress{};
  std::vector<uint8_t> row;
  int skipped_columns = 0;  // of a decoded row, before the window
  int width = 0;            // of the window
};

JpegDecoder::JpegDecoder() : state_(std::make_unique<State>()) {}
JpegDecoder::~JpegDecoder() = default;

JpegInfo JpegDecoder::open(std::string_view file) {
  State& s = *state_;
  require(looks_like_jpeg(file), Code::kFormat, "the ", file.size(),
          " bytes of the image are no JPEG; convert the data again");
  s.begin();
  s.call([&] {
    jpeg_mem_src(&s.codec, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&s.codec, TRUE);
  });
  const auto height = int64_t{s.codec.image_height}, width = int64_t{s.codec.image_width};
  require(height * width <= kMaxImagePixels, Code::kUnsupported, "the JPEG states ", width, " x ",
          height, " pixels, more than the limit of ", kMaxImagePixels);
  return {static_cast<int>(height), static_cast<int>(width), color_of(s.codec)};
}

void JpegDecoder::start(const Rectangle& window, int eighths) {
  State& s = *state_;
  const int height = scaled_jpeg_size(static_cast<int>(s.codec.image_height), eighths);
  const int width = scaled_jpeg_size(static_cast<int>(s.codec.image_width), eighths);
  require(window.top >= 0 && window.left >= 0 && window.height > 0 && window.width > 0 &&
              window.height <= height - window.top && window.width <= width - window.left,
          Code::kInternal, "a window of ", window.width, " x ", window.height, " at ", window.left,
          ", ", window.top, " lies outside of a JPEG of ", width, " x ", height);
  s.width = window.width;
  JDIMENSION left = static_cast<JDIMENSION>(std::max(window.left - kMargin, 0));
  JDIMENSION columns =
      static_cast<JDIMENSION>(std::min(window.left + window.width + kMargin, width)) - left;
  const bool cmyk = color_of(s.codec) == JpegColor::kCmyk;
  s.call([&] {
    s.codec.scale_num = static_cast<unsigned>(eighths);
    s.codec.scale_denom = 8;
    s.codec.dct_method = JDCT_ISLOW;
    s.codec.do_fancy_upsampling = TRUE;
    s.codec.out_color_space = cmyk ? JCS_CMYK : JCS_EXT_RGBX;
    jpeg_start_decompress(&s.codec);
    if (columns < s.codec.output_width) {
      jpeg_crop_scanline(&s.codec, &left, &columns);
    } else {
      left = 0;
    }
    if (window.top > 0) jpeg_skip_scanlines(&s.codec, static_cast<JDIMENSION>(window.top));
  });
  s.skipped_columns = window.left - static_cast<int>(left);
  s.row.resize(size_t{4} * s.codec.output_width);
}

// The row buffer holds the columns that were decoded, of which the window's begin further in.
const uint8_t* JpegDecoder::next_row() {
  State& s = *state_;
  s.call([&] {
    JSAMPROW row = s.row.data();
    jpeg_read_scanlines(&s.codec, &row, 1);
  });
  uint8_t* first = s.row.data() + 4 * s.skipped_columns;
  if (s.codec.out_color_space == JCS_CMYK) cmyk_to_rgbx(first, s.width);
  return first;
}

std::string encode_jpeg(const uint8_t* pixels, int height, int width, int quality) {
  require(height > 0 && width > 0 && height <= JPEG_MAX_DIMENSION && width <= JPEG_MAX_DIMENSION,
          Code::kUnsupported, "an image of ", width, " x ", height, " pixels, expected 1 to ",
          JPEG_MAX_DIMENSION, " in each direction");
  jpeg_compress_struct codec{};
  ErrorManager errors{};
  StringDestination destination{{nullptr, 0, begin_file, enlarge, end_file}, {}};
  install(errors);
  codec.err = &errors.base;
  const bool done = attempt(errors, [&] {
    jpeg_create_compress(&codec);
    codec.dest = &destination.base;
    codec.image_width = static_cast<JDIMENSION>(width);
    codec.image_height = static_cast<JDIMENSION>(height);
    codec.input_components = 3;
    codec.in_color_space = JCS_RGB;
    jpeg_set_defaults(&codec);
    jpeg_set_quality(&codec, quality, TRUE);
    for (int c = 0; c < 3; ++c)
      codec.comp_info[c].h_samp_factor = codec.comp_info[c].v_samp_factor = 1;
    jpeg_start_compress(&codec, TRUE);
    for (; codec.next_scanline < codec.image_height; pixels += 3 * width) {
      JSAMPROW row = const_cast<uint8_t*>(pixels);
      jpeg_write_scanlines(&codec, &row, 1);
    }
    jpeg_finish_compress(&codec);
  });
  jpeg_destroy_compress(&codec);
  const bool memory = errors.base.msg_code == JERR_OUT_OF_MEMORY;
  require(done, memory ? Code::kOutOfHostMemory : Code::kInternal,
          "cannot encode a JPEG: ", errors.message);
  return std::move(destination.file);
}

}  // namespace assay::data
