package assay

/*
#include "callbacks.h"

int32_t assayGoProgress(uintptr_t user, assay_str phase, int64_t done, int64_t total);
int32_t assayGoSample(uintptr_t user, int64_t index, assay_give give, void *to);
void assayGoReleaseSamples(uintptr_t user);
*/
import "C"

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"runtime/cgo"
	"time"
	"unsafe"
)

// Datasets reports the data sets that ConvertDataset knows.
func Datasets() (json.RawMessage, error) {
	return reportOf(func(out **C.assay_report, e **C.assay_error) C.assay_status { return C.assay_dataset_list(out, e) })
}

// watched runs a call on a context that tells of its progress, and that ctx or progress may stop.
func watched(ctx context.Context, c *Context, progress Progress, call func(c *C.assay_context, progress C.assay_progress, user C.uintptr_t, e **C.assay_error) C.assay_status) error {
	state := &progressState{ctx: ctx, progress: progress}
	handle := cgo.NewHandle(state)
	defer handle.Delete()
	err := c.call(func(c *C.assay_context, e **C.assay_error) C.assay_status {
		return call(c, C.assay_progress(C.assayGoProgress), C.uintptr_t(handle), e)
	})
	blame(err, ErrCancelled, state.stopped)
	return err
}

// ConvertDataset turns published files, in the folder source or the data set's own place, into a data
// set in the folder target. progress may be nil. What is done already is not done again.
func ConvertDataset(ctx context.Context, c *Context, name, source, target string, options any, progress Progress) (json.RawMessage, error) {
	text, err := configText(options)
	if err != nil {
		return nil, err
	}
	var out *C.assay_report
	err = watched(ctx, c, progress, func(c *C.assay_context, progress C.assay_progress, user C.uintptr_t, e **C.assay_error) C.assay_status {
		return C.assay_dataset_convert(c, cText(name), cText(source), cText(target), cText(text), progress, user, &out, e)
	})
	if err != nil {
		return nil, err
	}
	return takeReport(out), nil
}

// DatasetReport describes a data set by its manifest.
func DatasetReport(folder string) (json.RawMessage, error) {
	return reportOf(func(out **C.assay_report, e **C.assay_error) C.assay_status {
		return C.assay_dataset_report(cText(folder), out, e)
	})
}

// VerifyDataset reads all of a data set and compares it with its manifest. progress may be nil.
func VerifyDataset(ctx context.Context, c *Context, folder string, progress Progress) error {
	return watched(ctx, c, progress, func(c *C.assay_context, progress C.assay_progress, user C.uintptr_t, e **C.assay_error) C.assay_status {
		return C.assay_dataset_verify(c, cText(folder), progress, user, e)
	})
}

// ExportDataset writes a data set of JPEG images in another format. progress may be nil.
func ExportDataset(ctx context.Context, c *Context, folder, target string, options any, progress Progress) error {
	text, err := configText(options)
	if err != nil {
		return err
	}
	return watched(ctx, c, progress, func(c *C.assay_context, progress C.assay_progress, user C.uintptr_t, e **C.assay_error) C.assay_status {
		return C.assay_dataset_export(c, cText(folder), cText(target), cText(text), progress, user, e)
	})
}

// Loader gives the samples of one split of a data set, or of the program, as batches.
type Loader struct {
	*handle[C.assay_loader]
	Arrays []TensorSpec // of a batch, in its order

	last    given
	samples *samplesState // nil of a data set
}

// NewLoader makes a loader; assay_loader_create says which keys config has, "Transforms" in
// assay_data.h which transform has.
func NewLoader(c *Context, folder, split string, config, transform any) (*Loader, error) {
	text, err := configText(config)
	if err != nil {
		return nil, err
	}
	transformText, err := configText(transform)
	if err != nil {
		return nil, err
	}
	var out *C.assay_loader
	err = c.call(func(c *C.assay_context, e **C.assay_error) C.assay_status {
		return C.assay_loader_create(c, cText(folder), cText(split), cText(text), cText(transformText), &out, e)
	})
	if err != nil {
		return nil, err
	}
	return newLoader(out, c.host, nil)
}

// NewSamplesLoader makes a loader of samples that the program has. assay_loader_from_samples says
// which keys sample has: what is given for each, and what it becomes. Closing the loader and the
// tensors of its last batch ends the use of samples.
func NewSamplesLoader(c *Context, samples Samples, sample, config, transform any) (*Loader, error) {
	var texts [3]string
	for i, each := range []any{sample, config, transform} {
		var err error
		if texts[i], err = configText(each); err != nil {
			return nil, err
		}
	}
	state := &samplesState{samples: samples, failed: map[int32]error{}}
	handle := cgo.NewHandle(state)
	var s C.assay_samples
	s.struct_size = C.sizeof_assay_samples
	s.user = C.uintptr_t(handle)
	s.count = C.int64_t(samples.Len())
	s.sample = (*[0]byte)(C.assayGoSample)
	s.release = (*[0]byte)(C.assayGoReleaseSamples)
	var out *C.assay_loader
	err := c.call(func(c *C.assay_context, e **C.assay_error) C.assay_status {
		return C.assay_loader_from_samples(c, &s, cText(texts[0]), cText(texts[1]), cText(texts[2]), &out, e)
	})
	if err != nil {
		handle.Delete()
		return nil, err
	}
	return newLoader(out, c.host, state)
}

func newLoader(out *C.assay_loader, host *host, samples *samplesState) (*Loader, error) {
	l := &Loader{handle: newHandle("loader", out, func(l *C.assay_loader) { C.assay_loader_free(l) }, host), samples: samples}
	report, err := l.Report()
	if err != nil {
		return nil, err
	}
	return l, decodeReport(report, &struct{ Arrays *[]TensorSpec }{&l.Arrays})
}

// Close ends the loader's workers, now or when the last call that uses it has returned. It waits for
// the samples that they are at, one each at most. They end once the tensors of the last batch are
// closed, too.
func (l *Loader) Close() error { return l.handle.Close() }

// Batch is what a loader gives. Its tensors are the loader's: they are closed by its next call.
type Batch struct {
	Tensors []*Tensor
	Epoch   int64 // which pass over the data
	Index   int64 // which batch of that pass
	Rows    int64 // of the tensors
	Valid   int64 // the first of them that are samples; the others are padding, label -1
	Wait    time.Duration
}

// Next gives the next batch, io.EOF behind the last. After ErrCancelled the next call goes on.
func (l *Loader) Next(ctx context.Context) (Batch, error) {
	loader, leave, err := l.enter()
	if err != nil {
		return Batch{}, err
	}
	defer leave()
	l.last.replace(nil)
	places := make([]*C.assay_tensor, len(l.Arrays))
	var i C.assay_batch_info
	i.struct_size = C.sizeof_assay_batch_info
	err = interruptible(ctx, func() { C.assay_loader_interrupt(loader) }, func() error {
		return l.call(func(l *C.assay_loader, e **C.assay_error) C.assay_status {
			return C.assay_loader_next(l, &places[0], C.size_t(len(places)), &i, e)
		})
	})
	if errors.Is(err, ErrEndOfData) {
		return Batch{}, io.EOF
	} else if err != nil {
		var failed *Error
		if errors.As(err, &failed) && failed.Domain == DomainHost && l.samples != nil {
			blame(err, ErrCallback, l.samples.take(int32(failed.NativeCode)))
		}
		return Batch{}, err
	}
	batch := Batch{nil, int64(i.epoch), int64(i.batch), int64(i.rows), int64(i.valid), seconds(i.wait_seconds)}
	for _, t := range places {
		batch.Tensors = append(batch.Tensors, newTensorHandle(C.assay_tensor_retain(t), l.host))
	}
	l.last.replace(batch.Tensors)
	return batch, nil
}

// Cursor is the position after the batches given so far, for Trainer.SetMetadata.
func (l *Loader) Cursor() (string, error) {
	_, leave, err := l.enterShared() // or Next would change its size
	if err != nil {
		return "", err
	}
	defer leave()
	var cursor []byte
	err = l.call(func(l *C.assay_loader, e **C.assay_error) C.assay_status {
		var size C.size_t
		if status := C.assay_loader_cursor(l, nil, 0, &size, e); status != C.ASSAY_OK {
			return status
		}
		cursor = make([]byte, int(size)+1)
		status := C.assay_loader_cursor(l, unsafe.Pointer(&cursor[0]), size, &size, e)
		cursor = cursor[:int(size)]
		return status
	})
	return string(cursor), err
}

// Restore continues at a position of a loader with the same data, seed, order and batches.
func (l *Loader) Restore(cursor string) error {
	return l.goTo(func(l *C.assay_loader, e **C.assay_error) C.assay_status {
		text := cText(cursor)
		return C.assay_loader_restore(l, unsafe.Pointer(text.data), text.size, e)
	})
}

// SeekEpoch continues at the first batch of an epoch.
func (l *Loader) SeekEpoch(epoch int64) error {
	return l.goTo(func(l *C.assay_loader, e **C.assay_error) C.assay_status {
		return C.assay_loader_seek(l, C.int64_t(epoch), e)
	})
}

func (l *Loader) goTo(f func(l *C.assay_loader, e **C.assay_error) C.assay_status) error {
	_, leave, err := l.enter()
	if err != nil {
		return err
	}
	defer leave()
	l.last.replace(nil)
	err = l.call(f)
	if err == nil && l.samples != nil {
		l.samples.forget() // the errors of batches that were prefetched and are not wanted
	}
	return err
}

// Report describes what the loader gives and whether it keeps up with the training.
func (l *Loader) Report() (json.RawMessage, error) {
	return l.report(func(l *C.assay_loader, out **C.assay_report, e **C.assay_error) C.assay_status {
		return C.assay_loader_report(l, out, e)
	})
}
