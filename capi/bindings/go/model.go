package assay

// #include <assay/assay.h>
import "C"

import "encoding/json"

// Model is a network, with or without weights.
type Model struct {
	*handle[C.assay_model]
	context *Context
}

func newModelHandle(m *C.assay_model, c *Context) *Model {
	return &Model{newHandle("model", m, func(m *C.assay_model) { C.assay_model_free(m) }, c.host), c}
}

// Models reports the architectures that NewModel knows.
func Models() (json.RawMessage, error) {
	return reportOf(func(out **C.assay_report, e **C.assay_error) C.assay_status { return C.assay_model_list(out, e) })
}

// NewModel makes a model by name, without weights; "Configurations of models" in assay.h.
func NewModel(c *Context, architecture string, config any) (*Model, error) {
	text, err := configText(config)
	if err != nil {
		return nil, err
	}
	var out *C.assay_model
	err = c.call(func(c *C.assay_context, e **C.assay_error) C.assay_status {
		return C.assay_model_named(c, cText(architecture), cText(text), &out, e)
	})
	if err != nil {
		return nil, err
	}
	return newModelHandle(out, c), nil
}

// OpenModel makes the model that a checkpoint holds, with its weights.
func OpenModel(c *Context, path string) (*Model, error) {
	var out *C.assay_model
	err := c.call(func(c *C.assay_context, e **C.assay_error) C.assay_status {
		return C.assay_model_open(c, cText(path), &out, e)
	})
	if err != nil {
		return nil, err
	}
	return newModelHandle(out, c), nil
}

// Report describes the model: inputs, variables, configuration.
func (m *Model) Report() (json.RawMessage, error) {
	return m.report(func(m *C.assay_model, out **C.assay_report, e **C.assay_error) C.assay_status {
		return C.assay_model_report(m, out, e)
	})
}

// Mode is what Model.Check plans.
type Mode int32

const (
	ModeTrain   Mode = C.ASSAY_MODE_TRAIN
	ModeEval    Mode = C.ASSAY_MODE_EVAL
	ModePredict Mode = C.ASSAY_MODE_PREDICT
)

// Check says whether training or predicting with this configuration would work on the device, and
// what it would take, before any memory is taken.
func (m *Model) Check(device DeviceID, mode Mode, config any) (json.RawMessage, error) {
	text, err := configText(config)
	if err != nil {
		return nil, err
	}
	return m.report(func(m *C.assay_model, out **C.assay_report, e **C.assay_error) C.assay_status {
		return C.assay_model_check(m, device.c(), C.int32_t(mode), cText(text), out, e)
	})
}

// Initialize draws the first weights from the seed.
func (m *Model) Initialize(seed uint64) error {
	return m.call(func(m *C.assay_model, e **C.assay_error) C.assay_status {
		return C.assay_model_initialize(m, C.uint64_t(seed), e)
	})
}

// Kind is which tensor of a variable.
type Kind int32

const (
	KindValue     Kind = C.ASSAY_KIND_VALUE     // the weight
	KindGradient  Kind = C.ASSAY_KIND_GRADIENT  // of the last Backward or Step
	KindMoment1   Kind = C.ASSAY_KIND_MOMENT1   // of the optimizer
	KindMoment2   Kind = C.ASSAY_KIND_MOMENT2   // Adam's v
	KindEMA       Kind = C.ASSAY_KIND_EMA       // moving average
	KindStatistic Kind = C.ASSAY_KIND_STATISTIC // running mean or variance
)

// Tensor is a tensor of the model by name, without a copy: Read gives the present numbers, Write
// changes what is trained.
func (m *Model) Tensor(name string, kind Kind) (*Tensor, error) {
	var out *C.assay_tensor
	err := m.call(func(m *C.assay_model, e **C.assay_error) C.assay_status {
		return C.assay_model_tensor(m, cText(name), C.int32_t(kind), &out, e)
	})
	if err != nil {
		return nil, err
	}
	return newTensorHandle(out, m.host), nil
}

// LoadWeights loads a "safetensors" or "checkpoint" file into a model that has no trainer. partial
// loads what fits and reports the rest. nameMap says how names and layouts map, nil: they are ours,
// and which variables are kept. assay_model_load_weights in assay.h says of which format a file may
// be for these two; ConvertCheckpoint makes "safetensors" of a checkpoint.
func (m *Model) LoadWeights(path, format string, nameMap any, partial bool) (json.RawMessage, error) {
	text, err := configText(nameMap)
	if err != nil {
		return nil, err
	}
	var flags C.uint32_t
	if partial {
		flags = C.ASSAY_WEIGHTS_PARTIAL
	}
	return m.report(func(m *C.assay_model, out **C.assay_report, e **C.assay_error) C.assay_status {
		return C.assay_model_load_weights(m, cText(path), cText(format), cText(text), flags, out, e)
	})
}

// SaveWeights writes weights and statistics as "safetensors", whole and durable or not at all.
func (m *Model) SaveWeights(path, format string, nameMap any) error {
	text, err := configText(nameMap)
	if err != nil {
		return err
	}
	return m.call(func(m *C.assay_model, e **C.assay_error) C.assay_status {
		return C.assay_model_save_weights(m, cText(path), cText(format), cText(text), e)
	})
}
