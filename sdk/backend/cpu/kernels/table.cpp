// The table of one instruction set.
#include "sdk/backend/cpu/kernels/kernels.h"

#define ASSAY_TEXT_OF(name) #name
#define ASSAY_TEXT(name) ASSAY_TEXT_OF(name)

namespace assay::cpu::ASSAY_ISA {

extern const ElementwiseKernels kElementwise;
extern const PointwiseKernels kPointwise;
extern const DropoutKernels kDropout;
extern const ChannelKernels kChannel;
extern const FusionKernels kFusion;
extern const LayerNormKernels kLayerNorm;
extern const PanelProductKernels kProduct;
extern const PixelSumKernels kPixelSum;
extern const AttentionKernels kAttention;
extern const GatherKernels kGather;
extern const PoolKernels kPool;
extern const WinogradKernels kWinograd3, kWinograd5;
extern const DepthwiseKernels kDepthwise;
extern const SoftmaxKernels kSoftmax;
extern const SigmoidKernels kSigmoid;
extern const SoftTargetLossKernels kSoftTargetLoss;
extern const AnchorKernels kAnchors;
extern const UpdateKernels kUpdate;

extern const Kernels kTable;
const Kernels kTable = {ASSAY_TEXT(ASSAY_ISA),
                        &kElementwise,
                        &kPointwise,
                        &kDropout,
                        &kChannel,
                        &kFusion,
                        &kLayerNorm,
                        &kProduct,
                        &kPixelSum,
                        &kAttention,
                        &kGather,
                        &kPool,
                        {&kWinograd3, &kWinograd5},
                        &kDepthwise,
                        &kSoftmax,
                        &kSigmoid,
                        &kSoftTargetLoss,
                        &kAnchors,
                        &kUpdate};

}  // namespace assay::cpu::ASSAY_ISA
