package assay

/*
#include <assay/assay.h>

int32_t assayGoWrite(uintptr_t user, void *src, size_t size);
int32_t assayGoRead(uintptr_t user, void *dst, size_t size, uint64_t offset);

static int32_t write_bytes(uintptr_t user, const void *src, size_t size) {
  return assayGoWrite(user, (void *)src, size);
}
static void set_writer(assay_io *io) { io->write = write_bytes; }
static void set_reader(assay_io *io) { io->read = assayGoRead; }
*/
import "C"

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime/cgo"
)

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
	leave, err := t.channel.enter()
	if err != nil {
		return err
	}
	defer leave()
	return t.call(func(t *C.assay_trainer, e **C.assay_error) C.assay_status {
		return C.assay_checkpoint_save(t, cText(path), C.uint32_t(parts), e)
	})
}

// Load loads parts of a checkpoint into a trainer of the same model configuration.
func (t *Trainer) Load(path string, parts Parts) (json.RawMessage, error) {
	_, leave, err := t.enterWithRanks()
	if err != nil {
		return nil, err
	}
	defer leave()
	return t.report(func(t *C.assay_trainer, out **C.assay_report, e **C.assay_error) C.assay_status {
		return C.assay_checkpoint_load(t, cText(path), C.uint32_t(parts), out, e)
	})
}

// byHost runs a call with functions of the program, of which r or w is used. Their error is the cause
// of the call's.
func byHost(w io.Writer, r io.ReaderAt, size int64, call func(functions *C.assay_io) error) error {
	if size < 0 { // of C it has no sign
		return &Error{
			Code: ErrInvalid, Message: fmt.Sprintf("size is %d, expected the number of the checkpoint's bytes", size),
			Argument: "size", Expected: "the number of the checkpoint's bytes", Actual: fmt.Sprint(size),
		}
	}
	state := &ioState{writer: w, reader: r}
	handle := cgo.NewHandle(state)
	defer handle.Delete()
	var functions C.assay_io
	functions.struct_size = C.sizeof_assay_io
	functions.user = C.uintptr_t(handle)
	functions.size = C.uint64_t(size)
	if w != nil {
		C.set_writer(&functions)
	}
	if r != nil {
		C.set_reader(&functions)
	}
	err := call(&functions)
	blame(err, ErrIO, state.err)
	return err
}

// SaveTo writes what Save does to w, from the first byte to the last. After an error, which has w's
// as its cause, w may have taken a part.
func (t *Trainer) SaveTo(w io.Writer, parts Parts) error {
	leave, err := t.channel.enter()
	if err != nil {
		return err
	}
	defer leave()
	return byHost(w, nil, 0, func(to *C.assay_io) error {
		return t.call(func(t *C.assay_trainer, e **C.assay_error) C.assay_status {
			return C.assay_checkpoint_save_io(t, to, C.uint32_t(parts), e)
		})
	})
}

// LoadFrom does what Load does with the size bytes of r, in many small reads.
func (t *Trainer) LoadFrom(r io.ReaderAt, size int64, parts Parts) (report json.RawMessage, err error) {
	_, leave, err := t.enterWithRanks()
	if err != nil {
		return nil, err
	}
	defer leave()
	err = byHost(nil, r, size, func(from *C.assay_io) (err error) {
		report, err = t.report(func(t *C.assay_trainer, out **C.assay_report, e **C.assay_error) C.assay_status {
			return C.assay_checkpoint_load_io(t, from, C.uint32_t(parts), out, e)
		})
		return err
	})
	return report, err
}

// OpenModelFrom makes the model that a checkpoint holds, the size bytes of r.
func OpenModelFrom(c *Context, r io.ReaderAt, size int64) (*Model, error) {
	var out *C.assay_model
	err := byHost(nil, r, size, func(from *C.assay_io) error {
		return c.call(func(c *C.assay_context, e **C.assay_error) C.assay_status {
			return C.assay_model_open_io(c, from, &out, e)
		})
	})
	if err != nil {
		return nil, err
	}
	return newModelHandle(out, c), nil
}

// InspectCheckpointFrom says what InspectCheckpoint does, of the size bytes of r.
func InspectCheckpointFrom(r io.ReaderAt, size int64) (report json.RawMessage, err error) {
	err = byHost(nil, r, size, func(from *C.assay_io) (err error) {
		report, err = reportOf(func(out **C.assay_report, e **C.assay_error) C.assay_status {
			return C.assay_checkpoint_inspect_io(from, out, e)
		})
		return err
	})
	return report, err
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
