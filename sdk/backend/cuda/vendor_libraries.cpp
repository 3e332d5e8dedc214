#include "sdk/backend/cuda/vendor_libraries.h"

#include "sdk/backend/cuda/cublaslt.h"
#include "sdk/backend/cuda/cudnn.h"

namespace assay::cuda {
namespace {

class VendorLibraries : public Libraries {
 public:
  VendorLibraries(const std::string& machine, const DeviceState& device)
      : tuning_(machine), matrices_(tuning_, device), convolutions_(tuning_, device) {}
  LibraryAnswer matrix_product(const MatrixProduct& product) override {
    return matrices_.plan(product);
  }
  LibraryAnswer convolution(const Convolution& convolution) override {
    return convolutions_.plan(convolution);
  }

 private:
  Tuning tuning_;
  MatrixLibrary matrices_;
  ConvolutionLibrary convolutions_;
};

}  // namespace

std::unique_ptr<Libraries> make_vendor_libraries(const std::string& machine,
                                                 const DeviceState& device) {
  return std::make_unique<VendorLibraries>(machine, device);
}

}  // namespace assay::cuda
