package assay

// #include <assay/assay.h>
import "C"

import "encoding/json"

// Parts of a checkpoint.
type Parts uint32

const (
	PartWeights      Parts = C.ASSAY_PART_WEIGHTS
	PartMoments      Parts = C.ASSAY_PART_MOMENTS // of the optimizer
	PartEMA          Parts = C.ASSAY_PART_EMA
	PartStatistics   Parts = C.ASSAY_PART_STATISTICS    // running means and variances
	PartTrainerState Parts = C.ASSAY_PART_TRAINER_STATE // counters, loss scale, metadata
	PartAll          Parts = C.ASSAY_PART_ALL
)

// Save writes a checkpoint, whole and durable or not at all. A trainer that loads PartAll goes on
// with the same bits.
func (t *Trainer) Save(path string, parts Parts) error {
	return t.call(func(t *C.assay_trainer, e **C.assay_error) C.assay_status {
		return C.assay_checkpoint_save(t, cText(path), C.uint32_t(parts), e)
	})
}

// Load loads parts of a checkpoint into a trainer of the same model configuration.
func (t *Trainer) Load(path string, parts Parts) (json.RawMessage, error) {
	return t.report(func(t *C.assay_trainer, out **C.assay_report, e **C.assay_error) C.assay_status {
		return C.assay_checkpoint_load(t, cText(path), C.uint32_t(parts), out, e)
	})
}

// InspectCheckpoint says what a checkpoint or safetensors file holds.
func InspectCheckpoint(path string) (json.RawMessage, error) {
	return reportOf(func(out **C.assay_report, e **C.assay_error) C.assay_status {
		return C.assay_checkpoint_inspect(cText(path), out, e)
	})
}

// VerifyCheckpoint reads every byte of a checkpoint. The report describes damage.
func VerifyCheckpoint(path string) (json.RawMessage, error) {
	return reportOf(func(out **C.assay_report, e **C.assay_error) C.assay_status {
		return C.assay_checkpoint_verify(cText(path), out, e)
	})
}

// DiffCheckpoints compares two checkpoints, tensors bit by bit.
func DiffCheckpoints(a, b string) (json.RawMessage, error) {
	return reportOf(func(out **C.assay_report, e **C.assay_error) C.assay_status {
		return C.assay_checkpoint_diff(cText(a), cText(b), out, e)
	})
}

// ConvertCheckpoint converts a checkpoint to "safetensors", or back to a "checkpoint". kind is
// KindValue, or KindEMA for the moving averages.
func ConvertCheckpoint(from, to, format string, nameMap any, kind Kind) (json.RawMessage, error) {
	text, err := configText(nameMap)
	if err != nil {
		return nil, err
	}
	return reportOf(func(out **C.assay_report, e **C.assay_error) C.assay_status {
		return C.assay_checkpoint_convert(cText(from), cText(to), cText(format), cText(text), C.int32_t(kind), out, e)
	})
}
