// Any bytes as a file of COCO's instances: refused with an Error, or every image's objects are its
// own and there are no more of them than annotations.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "sdk/base/error.h"
#include "sdk/data/coco_instances.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace assay::data;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    const CocoInstances file = parse_coco_instances(input, "file");
    size_t objects = 0;
    for (size_t i = 0; i < file.images.size(); ++i) {
      for (const CocoObject& object : file.objects_of(i))
        if (object.image_id != file.images[i].id) std::abort();
      objects += file.objects_of(i).size();
    }
    if (objects != file.objects.size()) std::abort();
  } catch (const assay::Error& error) {
    if (error.code() != assay::Code::kFormat) std::abort();
  }
  return 0;
}
