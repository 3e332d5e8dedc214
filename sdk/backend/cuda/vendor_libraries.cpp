#include "sdk/backend/cuda/vendor_libraries.h"

#include "sdk/backend/cuda/cublaslt.h"
#include "sdk/backend/cuda/cudnn.h"

namespace assay::cuda {
namespace {

class VendorLibraries : public Libraries {
 public:
  VendorLibraries(const std::string& machine, const DeviceState& device)
      : tuning_(machine), matrices_(tuning_, device), convolutions_(tuning_, device) {}
  std::optional<LibraryCall> matrix_product(const MatrixProduct& product) override {
    return matrices_.plan(product);
  }
  std::optional<LibraryCall> convolution(const Convolution& convolution) override {
    return convolutions_.plan(convolution);
  }
  std::string last_refusal() const override { return convolutions_.last_refusal(); }

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
