package assay

// #include <assay/assay.h>
import "C"

import (
	"context"
	"encoding/json"
	"runtime"
	"sync"
)

// TensorSpec is an input or output of a predictor or an array of a loader's batches. Tensors have a
// batch axis before SampleShape.
type TensorSpec struct {
	Name        string  `json:"name"`
	DType       string  `json:"dtype"`
	SampleShape []int64 `json:"sample_shape"`
}

// Predictor is a copy of a model's weights for inference. Goroutines may share it.
type Predictor struct {
	*handle[C.assay_predictor]
	Inputs, Outputs []TensorSpec
	MaxBatch        int64

	context *Context
	turns   chan struct{} // one for each call of Predict that runs
	mu      sync.Mutex
	free    []*Slot // made for Predict, and used by none now
}

// NewPredictor copies the model's present weights; assay_predictor_create says which keys config has.
// At most GOMAXPROCS calls of Predict run at once, the others wait. The model's context makes the
// results of Predict, and must be open for that.
func NewPredictor(m *Model, config any) (*Predictor, error) {
	text, err := configText(config)
	if err != nil {
		return nil, err
	}
	var out *C.assay_predictor
	err = m.call(func(m *C.assay_model, e **C.assay_error) C.assay_status {
		return C.assay_predictor_create(m, cText(text), &out, e)
	})
	if err != nil {
		return nil, err
	}
	p := &Predictor{
		handle:  newHandle("predictor", out, func(p *C.assay_predictor) { C.assay_predictor_free(p) }, m.host),
		context: m.context,
		turns:   make(chan struct{}, runtime.GOMAXPROCS(0)),
	}
	report, err := p.Report()
	if err != nil {
		return nil, err
	}
	return p, decodeReport(report, &struct {
		Inputs, Outputs *[]TensorSpec
		MaxBatch        *int64 `json:"max_batch"`
	}{&p.Inputs, &p.Outputs, &p.MaxBatch})
}

// decodeReport reads keys of a report, which the library promises to be there.
func decodeReport(report json.RawMessage, to any) error {
	if err := json.Unmarshal(report, to); err != nil {
		return &Error{Code: ErrInternal, Message: err.Error(), cause: err}
	}
	return nil
}

// Report describes the predictor, its inputs and outputs.
func (p *Predictor) Report() (json.RawMessage, error) {
	return p.report(func(p *C.assay_predictor, out **C.assay_report, e **C.assay_error) C.assay_status {
		return C.assay_predictor_report(p, out, e)
	})
}

// Export writes what the predictor computes for programs of others, in a format as "onnx".
func (p *Predictor) Export(path, format string) (json.RawMessage, error) {
	return p.report(func(p *C.assay_predictor, out **C.assay_report, e **C.assay_error) C.assay_status {
		return C.assay_predictor_export(p, cText(path), cText(format), out, e)
	})
}

// Predict runs one batch and gives all outputs, which are the caller's. Any goroutine may call it.
func (p *Predictor) Predict(ctx context.Context, in ...*Tensor) ([]*Tensor, error) {
	if _, err := p.use(); err != nil {
		return nil, err
	}
	defer p.done()
	select {
	case p.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, cancelled(ctx)
	}
	defer func() { <-p.turns }()
	slot, err := p.takeSlot()
	if err != nil {
		return nil, err
	}
	defer p.giveBack(slot)
	views, err := slot.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	var out []*Tensor
	for _, view := range views {
		t, err := p.copyOf(view)
		if err != nil {
			closeAll(out)
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// copyOf is a tensor of its own in host memory.
func (p *Predictor) copyOf(view *Tensor) (*Tensor, error) {
	info, err := view.Info()
	if err != nil {
		return nil, err
	}
	from, err := lend([]*Tensor{view})
	if err != nil {
		return nil, err
	}
	defer from.done()
	t, err := newZeros(p.context, info.DType, info.Shape)
	if err != nil {
		return nil, err
	}
	err = t.call(func(to *C.assay_tensor, e **C.assay_error) C.assay_status {
		var i C.assay_tensor_info
		i.struct_size = C.sizeof_assay_tensor_info
		if status := C.assay_tensor_get_info(to, &i, e); status != C.ASSAY_OK {
			return status
		}
		return C.assay_tensor_read(from.objects[0], i.data, C.size_t(i.bytes), e)
	})
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// takeSlot gives a slot that was made before, if one is free: its plans are there.
func (p *Predictor) takeSlot() (*Slot, error) {
	p.mu.Lock()
	last := len(p.free) - 1
	if last < 0 {
		p.mu.Unlock()
		return p.NewSlot()
	}
	slot := p.free[last]
	p.free = p.free[:last]
	p.mu.Unlock()
	return slot, nil
}

// giveBack keeps a slot for the next call, unless the predictor was closed meanwhile.
func (p *Predictor) giveBack(slot *Slot) {
	slot.last.replace(nil)
	p.mu.Lock()
	closed := p.isClosed()
	if !closed {
		p.free = append(p.free, slot)
	}
	p.mu.Unlock()
	if closed {
		slot.Close()
	}
}

// Close frees the predictor and its slots, now or when the last call that uses them has returned.
func (p *Predictor) Close() error {
	p.handle.Close()
	p.mu.Lock()
	free := p.free
	p.free = nil
	p.mu.Unlock()
	for _, slot := range free { // those in use are closed when they come back
		slot.Close()
	}
	return nil
}

// Slot is what one caller runs a predictor with: plans and scratch memory, kept from run to run.
type Slot struct {
	*handle[C.assay_slot]
	predictor *Predictor
	last      given
}

// NewSlot makes a slot.
func (p *Predictor) NewSlot() (*Slot, error) {
	var out *C.assay_slot
	err := p.call(func(p *C.assay_predictor, e **C.assay_error) C.assay_status {
		return C.assay_slot_create(p, &out, e)
	})
	if err != nil {
		return nil, err
	}
	return &Slot{handle: newHandle("slot", out, func(s *C.assay_slot) { C.assay_slot_free(s) }, p.host), predictor: p}, nil
}

// Prepare makes the plan for a batch size now instead of in the first Run.
func (s *Slot) Prepare(batch int64) error {
	_, leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	return s.call(func(s *C.assay_slot, e **C.assay_error) C.assay_status {
		return C.assay_slot_prepare(s, C.int64_t(batch), e)
	})
}

// Close closes what the last Run gave, and frees the slot, now or when the call that uses it has
// returned.
func (s *Slot) Close() error {
	s.last.end()
	return s.handle.Close()
}

// Run runs one batch and gives all outputs. They are the slot's: its next Run, or Close, closes them.
func (s *Slot) Run(ctx context.Context, in []*Tensor) ([]*Tensor, error) {
	slot, leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	inputs, err := lend(in)
	if err != nil {
		return nil, err
	}
	defer inputs.done()
	s.last.replace(nil)
	places := make([]*C.assay_tensor, len(s.predictor.Outputs))
	err = interruptible(ctx, func() { C.assay_slot_interrupt(slot) }, func() error {
		return s.predictor.call(func(p *C.assay_predictor, e **C.assay_error) C.assay_status {
			from, n := inputs.array()
			return C.assay_predictor_run(p, slot, from, n, &places[0], C.size_t(len(places)), e)
		})
	})
	if err != nil {
		return nil, err
	}
	var out []*Tensor
	for _, place := range places {
		out = append(out, newTensorHandle(place, s.host))
	}
	s.last.replace(out)
	return out, nil
}

// Profile times every node of a prediction of this batch size.
func (s *Slot) Profile(batch int64, repeats int) (json.RawMessage, error) {
	_, leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.report(func(s *C.assay_slot, out **C.assay_report, e **C.assay_error) C.assay_status {
		return C.assay_slot_profile(s, C.int64_t(batch), C.int32_t(repeats), out, e)
	})
}
