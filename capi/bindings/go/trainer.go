package assay

// #include <assay/assay.h>
import "C"

import (
	"context"
	"encoding/json"
	"time"
)

// Precision is how a trainer computes.
type Precision int32

const (
	FP32    Precision = C.ASSAY_PRECISION_FP32
	TF32    Precision = C.ASSAY_PRECISION_TF32     // matrix units may round operands (GPU)
	AMPFP16 Precision = C.ASSAY_PRECISION_AMP_FP16 // f16 matrix operands, f32 masters (GPU)
	AMPBF16 Precision = C.ASSAY_PRECISION_AMP_BF16 // bf16 matrix operands, f32 masters
)

// TrainerOptions are the settings of most programs. Zero leaves each to Config, where it may be given
// as well; twice is an error.
type TrainerOptions struct {
	BatchSize     int64 // samples of a training batch
	EvalBatchSize int64 // 0: the same
	Accumulate    int64 // batches averaged into one update; 0: 1
	Seed          uint64
	LearningRate  float64
	Precision     Precision // 0: FP32
	Comm          *Comm     // the other devices that train with this one
	Config        any       // "Configuration of a trainer" in assay.h
}

// Trainer trains a model, which has one at a time.
type Trainer struct {
	*handle[C.assay_trainer]
	channel *channel // of its Comm; nil without
}

// NewTrainer makes a trainer, at step 0.
func NewTrainer(m *Model, options TrainerOptions) (*Trainer, error) {
	text, err := configText(options.Config)
	if err != nil {
		return nil, err
	}
	var o C.assay_trainer_options
	o.struct_size = C.sizeof_assay_trainer_options
	o.batch_size = C.int64_t(options.BatchSize)
	o.eval_batch_size = C.int64_t(options.EvalBatchSize)
	o.accumulate = C.int64_t(options.Accumulate)
	o.seed = C.uint64_t(options.Seed)
	o.learning_rate = C.double(options.LearningRate)
	o.precision = C.int32_t(options.Precision)
	var ranks *channel
	if options.Comm != nil {
		comm, leave, err := options.Comm.enter()
		if err != nil {
			return nil, err
		}
		defer leave()
		o.comm, ranks = comm, options.Comm.channel
	}
	var out *C.assay_trainer
	err = m.call(func(m *C.assay_model, e **C.assay_error) C.assay_status {
		return C.assay_trainer_create(m, &o, cText(text), &out, e)
	})
	if err != nil {
		return nil, err
	}
	return &Trainer{newHandle("trainer", out, func(t *C.assay_trainer) { C.assay_trainer_free(t) }, m.host), ranks}, nil
}

// enterWithRanks is enter for calls that may talk to the other ranks.
func (t *Trainer) enterWithRanks() (object *C.assay_trainer, leave func(), err error) {
	object, leaveTrainer, err := t.enter()
	if err != nil {
		return nil, nil, err
	}
	leaveChannel, err := t.channel.enter()
	if err != nil {
		leaveTrainer()
		return nil, nil, err
	}
	return object, func() { leaveChannel(); leaveTrainer() }, nil
}

// StepInfo is what a training step did.
type StepInfo struct {
	Step             int64 // updates done or skipped, this one included
	MicroStep        int64 // batches since the last update
	Samples          int64 // training samples since step 0
	Loss             float64
	GradNorm         float64 // before clipping; 0 without an update
	LossScale        float64
	LearningRate     float64
	Duration         time.Duration
	Updated          bool // the weights changed
	SkippedNonfinite bool // dynamic loss scaling met a NaN or infinity
}

func seconds(s C.double) time.Duration { return time.Duration(float64(s) * float64(time.Second)) }

type stepCall func(t *C.assay_trainer, info *C.assay_step_info, e **C.assay_error) C.assay_status

func (t *Trainer) run(ctx context.Context, call func(t *C.assay_trainer, e **C.assay_error) C.assay_status) error {
	object, leave, err := t.enterWithRanks()
	if err != nil {
		return err
	}
	defer leave()
	return interruptible(ctx, func() { C.assay_trainer_interrupt(object) }, func() error { return t.call(call) })
}

func (t *Trainer) step(ctx context.Context, call stepCall) (StepInfo, error) {
	var i C.assay_step_info
	i.struct_size = C.sizeof_assay_step_info
	err := t.run(ctx, func(t *C.assay_trainer, e **C.assay_error) C.assay_status { return call(t, &i, e) })
	return StepInfo{
		Step:             int64(i.step),
		MicroStep:        int64(i.micro_step),
		Samples:          int64(i.samples),
		Loss:             float64(i.loss),
		GradNorm:         float64(i.grad_norm),
		LossScale:        float64(i.loss_scale),
		LearningRate:     float64(i.learning_rate),
		Duration:         seconds(i.seconds),
		Updated:          i.flags&C.ASSAY_STEP_UPDATED != 0,
		SkippedNonfinite: i.flags&C.ASSAY_STEP_SKIPPED_NONFINITE != 0,
	}, err
}

// Prefetch hands over the batch of a later step, whose batch is then nil.
func (t *Trainer) Prefetch(batch []*Tensor) error {
	held, err := lend(batch)
	if err != nil {
		return err
	}
	defer held.done()
	return t.call(func(t *C.assay_trainer, e **C.assay_error) C.assay_status {
		array, n := held.array()
		return C.assay_trainer_prefetch(t, array, n, e)
	})
}

// Step trains on one batch, the model's inputs in their order; nil is the oldest prefetched one.
func (t *Trainer) Step(ctx context.Context, batch []*Tensor) (StepInfo, error) {
	held, err := lend(batch)
	if err != nil {
		return StepInfo{}, err
	}
	defer held.done()
	return t.step(ctx, func(t *C.assay_trainer, info *C.assay_step_info, e **C.assay_error) C.assay_status {
		array, n := held.array()
		return C.assay_trainer_step(t, array, n, info, e)
	})
}

// Backward is the first half of a step: gradients of one batch, added to those since the last update.
func (t *Trainer) Backward(ctx context.Context, batch []*Tensor) (StepInfo, error) {
	held, err := lend(batch)
	if err != nil {
		return StepInfo{}, err
	}
	defer held.done()
	return t.step(ctx, func(t *C.assay_trainer, info *C.assay_step_info, e **C.assay_error) C.assay_status {
		array, n := held.array()
		return C.assay_trainer_backward(t, array, n, info, e)
	})
}

// Apply is the second half: the update from the gradients, which may have been edited (Model.Tensor).
func (t *Trainer) Apply(ctx context.Context) (StepInfo, error) {
	return t.step(ctx, func(t *C.assay_trainer, info *C.assay_step_info, e **C.assay_error) C.assay_status {
		return C.assay_trainer_apply(t, info, e)
	})
}

// EvalInfo is what an evaluation of one batch counted.
type EvalInfo struct {
	Samples    int64   // rows that are no padding
	LossSum    float64 // over these rows
	Top1, Top5 float64 // how many were classified right, or were among the five best; 0 without such outputs
	Duration   time.Duration
}

// Eval evaluates one batch and changes nothing. ema evaluates the moving averages.
func (t *Trainer) Eval(ctx context.Context, batch []*Tensor, ema bool) (EvalInfo, error) {
	held, err := lend(batch)
	if err != nil {
		return EvalInfo{}, err
	}
	defer held.done()
	var flags C.uint32_t
	if ema {
		flags = C.ASSAY_EVAL_EMA
	}
	var i C.assay_eval_info
	i.struct_size = C.sizeof_assay_eval_info
	err = t.run(ctx, func(t *C.assay_trainer, e **C.assay_error) C.assay_status {
		array, n := held.array()
		return C.assay_trainer_eval(t, array, n, flags, &i, e)
	})
	return EvalInfo{int64(i.samples), float64(i.loss_sum), float64(i.top1), float64(i.top5), seconds(i.seconds)}, err
}

// Scalar is a number that the model computed for the last batch trained or evaluated.
func (t *Trainer) Scalar(name string) (float64, error) {
	var value C.double
	err := t.call(func(t *C.assay_trainer, e **C.assay_error) C.assay_status {
		return C.assay_trainer_scalar(t, cText(name), &value, e)
	})
	return float64(value), err
}

// Output copies a tensor that the model computed for the batch evaluated last.
func (t *Trainer) Output(name string) (*Tensor, error) {
	var out *C.assay_tensor
	err := t.call(func(t *C.assay_trainer, e **C.assay_error) C.assay_status {
		return C.assay_trainer_output(t, cText(name), &out, e)
	})
	if err != nil {
		return nil, err
	}
	return newTensorHandle(out, t.host), nil
}

// Set changes a setting between steps: "learning_rate", "loss_scale".
func (t *Trainer) Set(key string, value float64) error {
	return t.call(func(t *C.assay_trainer, e **C.assay_error) C.assay_status {
		return C.assay_trainer_set(t, cText(key), C.double(value), e)
	})
}

// Cursor is the metadata that holds the position of a loader: Loader.Cursor.
const Cursor = "assay.cursor"

// SetMetadata attaches a text to the trainer, or under Cursor any bytes. Checkpoints carry it.
func (t *Trainer) SetMetadata(key, value string) error {
	text := cText(value + "\x00") // an empty value has an address, too
	text.size--
	return t.setMetadata(key, text)
}

// DeleteMetadata removes one.
func (t *Trainer) DeleteMetadata(key string) error { return t.setMetadata(key, C.assay_str{}) }

func (t *Trainer) setMetadata(key string, value C.assay_str) error {
	_, leave, err := t.enter() // or a text that Metadata copies would be freed
	if err != nil {
		return err
	}
	defer leave()
	return t.call(func(t *C.assay_trainer, e **C.assay_error) C.assay_status {
		return C.assay_trainer_set_metadata(t, cText(key), value, e)
	})
}

// Metadata reads what SetMetadata or a checkpoint attached.
func (t *Trainer) Metadata(key string) (string, error) {
	_, leave, err := t.enterShared()
	if err != nil {
		return "", err
	}
	defer leave()
	var text string
	err = t.call(func(t *C.assay_trainer, e **C.assay_error) C.assay_status {
		var value C.assay_str
		status := C.assay_trainer_get_metadata(t, cText(key), &value, e)
		text = goText(value)
		return status
	})
	return text, err
}

// Report says how training is done and where it stands.
func (t *Trainer) Report() (json.RawMessage, error) {
	return t.report(func(t *C.assay_trainer, out **C.assay_report, e **C.assay_error) C.assay_status {
		return C.assay_trainer_report(t, out, e)
	})
}

// Profile times every node of the training step, each time the median of so many repeats.
func (t *Trainer) Profile(repeats int) (json.RawMessage, error) {
	_, leave, err := t.enterWithRanks()
	if err != nil {
		return nil, err
	}
	defer leave()
	return t.report(func(t *C.assay_trainer, out **C.assay_report, e **C.assay_error) C.assay_status {
		return C.assay_trainer_profile(t, C.int32_t(repeats), out, e)
	})
}
