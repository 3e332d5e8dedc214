package assay

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"io/fs"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

var ctx = context.Background()

// must fails the test if a call did.
func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		ok(t, err)
		return value
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fails expects a code, and gives the error.
func fails(t *testing.T, err error, code Code) *Error {
	t.Helper()
	var e *Error
	if !errors.Is(err, code) || !errors.As(err, &e) || e.Message == "" {
		t.Fatalf("%v, expected %v", err, code)
	}
	return e
}

// says expects how the text of an error ends.
func says(t *testing.T, err error, end string) {
	t.Helper()
	if !strings.HasSuffix(err.Error(), end) {
		t.Fatalf("%v, expected ...%s", err, end)
	}
}

func equal[T any](t *testing.T, actual, expected T) {
	t.Helper()
	if !reflect.DeepEqual(actual, expected) {
		t.Fatalf("%v, expected %v", actual, expected)
	}
}

func newContext(t *testing.T, options ContextOptions) *Context {
	t.Helper()
	options.Threads = 1
	c := must[*Context](t)(NewContext(options))
	t.Cleanup(func() { c.Close() })
	return c
}

const rows = 4

var small = JSON{"image": []int{8, 8, 1}, "classes": 3, "conv": []int{4}, "hidden": []int{0}}

// newBatch makes images and labels from a seed.
func newBatch(t *testing.T, c *Context, seed int64, shape ...int64) []*Tensor {
	t.Helper()
	random := rand.New(rand.NewSource(seed))
	size := int64(1)
	for _, n := range shape {
		size *= n
	}
	pixels := make([]float32, size)
	for i := range pixels {
		pixels[i] = random.Float32()
	}
	labels := make([]int32, shape[0])
	for i := range labels {
		labels[i] = random.Int31n(3)
	}
	return []*Tensor{must[*Tensor](t)(NewTensor(c, pixels, shape...)), must[*Tensor](t)(NewTensor(c, labels, shape[0]))}
}

func smallBatch(t *testing.T, c *Context, seed int64) []*Tensor {
	return newBatch(t, c, seed, rows, 8, 8, 1)
}

func newTrainer(t *testing.T, c *Context) (*Model, *Trainer) {
	t.Helper()
	m := must[*Model](t)(NewModel(c, "cnn", small))
	return m, must[*Trainer](t)(NewTrainer(m, TrainerOptions{
		BatchSize: rows, Seed: 7, LearningRate: 0.05,
		Config: JSON{"optimizer": JSON{"name": "sgd", "momentum": 0.9}},
	}))
}

// slowTrainer takes long enough for a step to be met.
func slowTrainer(t *testing.T, c *Context) (*Trainer, []*Tensor) {
	t.Helper()
	m := must[*Model](t)(NewModel(c, "resnet18", JSON{"width": 32, "classes": 3}))
	trainer := must[*Trainer](t)(NewTrainer(m, TrainerOptions{
		BatchSize: 16, LearningRate: 0.01, Config: `{"optimizer": {"name": "sgd"}}`,
	}))
	batch := newBatch(t, c, 1, 16, 32, 32, 3)
	must[StepInfo](t)(trainer.Step(ctx, batch)) // plans
	return trainer, batch
}

func TestVersion(t *testing.T) {
	equal(t, ABIVersion()>>16, 1)
	if Version() == "" {
		t.Fatal("no version")
	}
	devices := must[[]Device](t)(Devices())
	if devices[0].ID != (DeviceID{}) || devices[0].Name == "" || devices[0].Threads < 1 {
		t.Fatal(devices[0])
	}
}

func TestEveryFunctionIsBound(t *testing.T) {
	exports, err := os.ReadFile("../../exports.map")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("exports.map is in Assay's repository, of which this is an installed copy")
	}
	ok(t, err)
	bound := map[string]bool{
		"assay_tensor_borrow": true, // keeps memory of the host, which Go's must not be
	}
	for _, file := range must[[]string](t)(filepath.Glob("*.go")) {
		for _, call := range regexp.MustCompile(`C\.(assay_\w+)\(`).FindAllSubmatch(must[[]byte](t)(os.ReadFile(file)), -1) {
			bound[string(call[1])] = true
		}
	}
	names := regexp.MustCompile(`assay_\w+;`).FindAllString(string(exports), -1)
	if len(names) < 100 {
		t.Fatal(len(names))
	}
	for _, name := range names {
		if name = strings.TrimSuffix(name, ";"); !bound[name] {
			t.Errorf("%s of exports.map is called nowhere in this package", name)
		}
	}
}

func TestTheLibraryCanBeAPartOfAProgram(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go to build a program with")
	}
	folder, err := exec.Command("pkg-config", "--variable=libdir", "assay").Output()
	ok(t, err)
	if _, err := os.Stat(filepath.Join(strings.TrimSpace(string(folder)), "libassay.a")); err != nil {
		t.Skip("the static library is not installed")
	}
	program := filepath.Join(t.TempDir(), "program")
	output, err := exec.Command("go", "build", "-tags", "assay_static", "-o", program, "./examples/train_and_serve").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	file := must[*elf.File](t)(elf.Open(program))
	defer file.Close()
	for _, library := range must[[]string](t)(file.ImportedLibraries()) {
		if strings.HasPrefix(library, "libassay") {
			t.Fatal(library)
		}
	}
	output, err = exec.Command(program, filepath.Join(t.TempDir(), "a.ckpt"), "1").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}

func TestErrorsSayWhatIsWrong(t *testing.T) {
	c := newContext(t, ContextOptions{})
	_, err := NewModel(c, "cnn", JSON{"clases": 3})
	e := fails(t, err, ErrInvalid)
	if !strings.Contains(e.Hint, "classes") || e.Argument != "clases" || errors.Is(err, ErrNotFound) || e.Retry {
		t.Fatalf("%+v", e)
	}
	equal(t, ErrNotFound.Error(), "assay: not_found")
	_, err = NewModel(c, "cnm", nil)
	fails(t, err, ErrNotFound)
	_, err = NewModel(c, "cnn", JSON{"classes": func() {}})
	fails(t, err, ErrInvalid)
	_, err = InspectCheckpoint(filepath.Join(t.TempDir(), "none"))
	fails(t, err, ErrNotFound)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%v is no fs.ErrNotExist", err)
	}
	_, err = NewContext(ContextOptions{Device: DeviceID{CPU, 3}})
	fails(t, err, ErrInvalid)
}

func TestWhatWasNotMadeIsRefused(t *testing.T) {
	c := newContext(t, ContextOptions{})
	_, trainer := newTrainer(t, c)
	batch := smallBatch(t, c, 1)
	_, err := trainer.Step(ctx, []*Tensor{batch[0], nil})
	equal(t, fails(t, err, ErrInvalid).Message, "tensor 1 is nil")
	must[StepInfo](t)(trainer.Step(ctx, batch))
	_, err = new(Trainer).Step(ctx, batch)
	fails(t, err, ErrInvalid)
	_, err = new(Loader).Next(ctx)
	fails(t, err, ErrInvalid)
	_, err = new(Predictor).Predict(ctx, batch[0])
	fails(t, err, ErrInvalid)
	_, err = new(Slot).Run(ctx, batch[:1])
	fails(t, err, ErrInvalid)
	_, err = NewModel(new(Context), "cnn", nil)
	fails(t, err, ErrInvalid)
	ok(t, new(Context).Close())
	ok(t, new(Predictor).Close())
}

func TestTensors(t *testing.T) {
	c := newContext(t, ContextOptions{})
	a := must[*Tensor](t)(NewTensor(c, []int64{1, -2, 3, 4, 5, 6}, 2, 3))
	equal(t, must[TensorInfo](t)(a.Info()), TensorInfo{DType: I64, Shape: []int64{2, 3}, Bytes: 48})
	equal(t, must[[]int64](t)(Read[int64](a)), []int64{1, -2, 3, 4, 5, 6})
	ok(t, Write(a, []int64{6, 5, 4, 3, 2, 1}))
	equal(t, must[[]int64](t)(Read[int64](a)), []int64{6, 5, 4, 3, 2, 1})
	e := fails(t, Write(a, []int64{1}), ErrInvalid)
	equal(t, e.Message, "a slice of 1 elements was given for a tensor of shape [2 3], which has 6")
	fails(t, ReadInto(a, make([]int64, 7)), ErrInvalid)
	fails(t, Write(a, []int32{1}), ErrInvalid)
	_, err := Read[float32](a)
	fails(t, err, ErrInvalid)
	_, err = NewTensor(c, []float32{1, 2, 3}, 4)
	equal(t, fails(t, err, ErrInvalid).Message, "a slice of 3 elements was given for a tensor of shape [4], which has 4")
	scalar := must[*Tensor](t)(NewTensor(c, []Float16{0x3c00}))
	equal(t, must[[]Float16](t)(Read[Float16](scalar)), []Float16{0x3c00})
	none := must[*Tensor](t)(NewTensor(c, []uint8{}, 0, 4))
	equal(t, must[[]uint8](t)(Read[uint8](none)), []uint8{})
	equal(t, must[[]float64](t)(Read[float64](must[*Tensor](t)(NewTensor[float64](c, nil, 2)))), []float64{0, 0})
	equal(t, BF16.String(), "bf16")
	shared := must[*Tensor](t)(NewTensorFromDLPack(c, must[unsafe.Pointer](t)(a.DLPack())))
	ok(t, a.Close())
	equal(t, must[TensorInfo](t)(shared.Info()).Shape, []int64{2, 3})
	equal(t, must[[]int64](t)(Read[int64](shared)), []int64{6, 5, 4, 3, 2, 1})
	_, err = NewTensorFromDLPack(c, nil)
	fails(t, err, ErrInvalid)
}

func TestCloseIsSafeAtAnyTime(t *testing.T) {
	c := newContext(t, ContextOptions{})
	trainer, batch := slowTrainer(t, c)
	var stepping sync.WaitGroup
	stepping.Add(1)
	go func() {
		defer stepping.Done()
		for {
			if _, err := trainer.Step(ctx, batch); err != nil {
				if !errors.Is(err, fs.ErrClosed) {
					t.Errorf("%v", err)
				}
				return
			}
		}
	}()
	time.Sleep(5 * time.Millisecond)
	ok(t, batch[0].Close())
	ok(t, trainer.Close())
	ok(t, trainer.Close())
	stepping.Wait()
	_, err := trainer.Report()
	equal(t, fails(t, err, ErrInvalid).Message, "the trainer was used after Close")
	ok(t, c.Close())
	_, err = NewModel(c, "cnn", nil)
	fails(t, err, ErrInvalid)
}

func TestWhatIsForgottenIsFreed(t *testing.T) {
	c := newContext(t, ContextOptions{Log: func(LogLevel, string, string) {}, LogLevel: LogDebug})
	func() {
		m, trainer := newTrainer(t, c)
		must[StepInfo](t)(trainer.Step(ctx, smallBatch(t, c, 1)))
		p := must[*Predictor](t)(NewPredictor(m, nil))
		must[[]*Tensor](t)(p.Predict(ctx, smallBatch(t, c, 1)[0]))
	}()
	for i := 0; i < 200; i++ {
		runtime.GC()
		if stats := must[MemStats](t)(c.MemStats(DeviceID{})); stats.Blocks == 0 && stats.InUse == 0 && stats.Peak > 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal(c.MemStats(DeviceID{}))
}

func TestAClosedPredictorKeepsNothing(t *testing.T) {
	c := newContext(t, ContextOptions{})
	m, trainer := newTrainer(t, c)
	ok(t, trainer.Close())
	batch := smallBatch(t, c, 1)
	p := must[*Predictor](t)(NewPredictor(m, nil))
	ok(t, m.Close())
	for i := 0; i < 4; i++ {
		for _, out := range must[[]*Tensor](t)(p.Predict(ctx, batch[0])) {
			ok(t, out.Close())
		}
	}
	equal(t, len(p.free), 1) // one caller has one plan
	slot := must[*Slot](t)(p.NewSlot())
	must[[]*Tensor](t)(slot.Run(ctx, batch[:1]))
	ok(t, p.Close())
	ok(t, slot.Close())
	closeAll(batch)
	if stats := must[MemStats](t)(c.MemStats(DeviceID{})); stats.InUse != 0 {
		t.Fatal(stats)
	}
}

func TestAResumedTrainingHasTheSameBits(t *testing.T) {
	c := newContext(t, ContextOptions{})
	path := filepath.Join(t.TempDir(), "a.ckpt")
	_, whole := newTrainer(t, c)
	for i := int64(0); i < 4; i++ {
		must[StepInfo](t)(whole.Step(ctx, smallBatch(t, c, i)))
		if i == 1 {
			ok(t, whole.SetMetadata("note", ""))
			ok(t, whole.SetMetadata("of", "the host"))
			ok(t, whole.Save(path, PartAll))
		}
	}
	model, resumed := newTrainer(t, c)
	must[json.RawMessage](t)(resumed.Load(path, PartAll))
	equal(t, must[string](t)(resumed.Metadata("note")), "")
	equal(t, must[string](t)(resumed.Metadata("of")), "the host")
	ok(t, resumed.DeleteMetadata("of"))
	_, err := resumed.Metadata("of")
	fails(t, err, ErrNotFound)
	ok(t, resumed.SetMetadata("of", "the host"))
	for i := int64(2); i < 4; i++ {
		info := must[StepInfo](t)(resumed.Step(ctx, smallBatch(t, c, i)))
		if info.Step != i+1 || info.Samples != rows*(i+1) || !info.Updated || info.Loss <= 0 || info.Duration <= 0 {
			t.Fatalf("%+v", info)
		}
	}
	a, b := path+"1", path+"2"
	ok(t, whole.Save(a, PartAll))
	ok(t, resumed.Save(b, PartAll))
	var diff struct{ Identical bool }
	ok(t, json.Unmarshal(must[json.RawMessage](t)(DiffCheckpoints(a, b)), &diff))
	equal(t, diff.Identical, true)

	var verified struct{ OK bool }
	ok(t, json.Unmarshal(must[json.RawMessage](t)(VerifyCheckpoint(a)), &verified))
	equal(t, verified.OK, true)

	// The weights alone, through safetensors and through the file that says what model it is of.
	must[json.RawMessage](t)(ConvertCheckpoint(a, path+".safetensors", "safetensors", nil, KindValue))
	loaded := must[*Model](t)(NewModel(c, "cnn", small))
	must[json.RawMessage](t)(loaded.LoadWeights(path+".safetensors", "safetensors", nil, false))
	opened := must[*Model](t)(OpenModel(c, a))
	weight := func(m *Model) []float32 {
		return must[[]float32](t)(Read[float32](must[*Tensor](t)(m.Tensor("output.weight", KindValue))))
	}
	equal(t, weight(loaded), weight(model))
	equal(t, weight(opened), weight(model))
	ok(t, opened.SaveWeights(path+".again", "safetensors", nil))
}

// broken fails behind the first n bytes, both ways.
type broken struct {
	bytes.Buffer
	n int
}

var errBroken = errors.New("broken")

func (b *broken) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.n {
		return 0, errBroken
	}
	return b.Buffer.Write(p)
}

func (b *broken) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > int64(b.n) {
		return 0, errBroken
	}
	return copy(p, b.Bytes()[off:]), nil
}

func TestCheckpointsWithoutFiles(t *testing.T) {
	c := newContext(t, ContextOptions{})
	model, trainer := newTrainer(t, c)
	must[StepInfo](t)(trainer.Step(ctx, smallBatch(t, c, 1)))

	// Through a pipe, as through a socket.
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(trainer.SaveTo(writer, PartAll)) }()
	saved := must[[]byte](t)(io.ReadAll(reader))
	size := int64(len(saved))
	path := filepath.Join(t.TempDir(), "a.ckpt")
	ok(t, os.WriteFile(path, saved, 0o600))
	var verified struct{ OK bool }
	ok(t, json.Unmarshal(must[json.RawMessage](t)(VerifyCheckpoint(path)), &verified))
	equal(t, verified.OK, true)

	weight := func(m *Model) []float32 {
		return must[[]float32](t)(Read[float32](must[*Tensor](t)(m.Tensor("output.weight", KindValue))))
	}
	other, resumed := newTrainer(t, c)
	var loaded struct {
		Step int
		Path *string
	}
	ok(t, json.Unmarshal(must[json.RawMessage](t)(resumed.LoadFrom(bytes.NewReader(saved), size, PartAll)), &loaded))
	equal(t, loaded.Step, 1)
	equal(t, loaded.Path, nil)
	equal(t, weight(other), weight(model))
	equal(t, weight(must[*Model](t)(OpenModelFrom(c, bytes.NewReader(saved), size))), weight(model))
	var inspected struct{ Format string }
	ok(t, json.Unmarshal(must[json.RawMessage](t)(InspectCheckpointFrom(bytes.NewReader(saved), size)), &inspected))
	equal(t, inspected.Format, "checkpoint")

	// What a writer or reader says is the cause.
	half := &broken{n: int(size) / 2}
	err := trainer.SaveTo(half, PartAll)
	if e := fails(t, err, ErrIO); !errors.Is(err, errBroken) || e.Domain != DomainHost || e.NativeCode != -1 {
		t.Fatalf("%+v", e)
	}
	says(t, err, ": broken")
	half = &broken{n: int(size) - 1}
	half.Buffer.Write(saved)
	_, err = resumed.LoadFrom(half, size, PartAll)
	if fails(t, err, ErrIO); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	says(t, err, ": broken")
	_, err = OpenModelFrom(c, bytes.NewReader(saved), size+1)
	if fails(t, err, ErrIO); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	_, err = OpenModelFrom(c, bytes.NewReader(saved), size-1)
	fails(t, err, ErrFormat)
	_, err = InspectCheckpointFrom(bytes.NewReader(saved), -1)
	equal(t, fails(t, err, ErrInvalid).Actual, "-1")
}

func TestASplitStepIsAStep(t *testing.T) {
	c := newContext(t, ContextOptions{})
	_, one := newTrainer(t, c)
	model, two := newTrainer(t, c)
	batch := smallBatch(t, c, 1)
	must[StepInfo](t)(one.Step(ctx, batch))
	must[StepInfo](t)(two.Backward(ctx, batch))
	gradient := must[*Tensor](t)(model.Tensor("output.bias", KindGradient))
	if g := must[[]float32](t)(Read[float32](gradient)); reflect.DeepEqual(g, make([]float32, 3)) {
		t.Fatal("no gradient")
	}
	must[StepInfo](t)(two.Apply(ctx))
	ok(t, two.Prefetch(batch))
	ok(t, one.Set("learning_rate", 0.01))
	ok(t, two.Set("learning_rate", 0.01))
	a, b := must[StepInfo](t)(one.Step(ctx, batch)), must[StepInfo](t)(two.Step(ctx, nil))
	equal(t, a.Loss, b.Loss)
	equal(t, a.LearningRate, 0.01)
	eval := must[EvalInfo](t)(one.Eval(ctx, batch, false))
	if eval.Samples != rows || eval.LossSum <= 0 {
		t.Fatalf("%+v", eval)
	}
	equal(t, must[float64](t)(one.Scalar("loss")), eval.LossSum)
	equal(t, must[TensorInfo](t)(must[*Tensor](t)(one.Output("logits")).Info()).Shape, []int64{rows, 3})
	_, err := one.Eval(ctx, batch, true)
	fails(t, err, ErrInvalid)
	_, err = one.Step(ctx, batch[:1])
	fails(t, err, ErrInvalid)
	for _, report := range []func() (json.RawMessage, error){
		one.Report, model.Report, Models, c.Environment,
		func() (json.RawMessage, error) { return one.Profile(1) },
		func() (json.RawMessage, error) { return model.Check(DeviceID{}, ModePredict, nil) },
	} {
		if !json.Valid(must[json.RawMessage](t)(report())) {
			t.Fatal("a report is no JSON")
		}
	}
}

func TestAContextStopsAStep(t *testing.T) {
	c := newContext(t, ContextOptions{})
	trainer, batch := slowTrainer(t, c)
	before := must[StepInfo](t)(trainer.Step(ctx, batch))
	_, other := newTrainer(t, c)
	otherBatch := smallBatch(t, c, 2)
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() { // is never stopped
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if _, err := other.Step(ctx, otherBatch); err != nil {
				stopped <- err
				return
			}
		}
	}()
	cancelledSteps, done := 0, int64(0)
	for i := 0; i < 1000 && cancelledSteps < 3; i++ {
		limited, cancel := context.WithTimeout(ctx, before.Duration/4)
		_, err := trainer.Step(limited, batch)
		cancel()
		if err == nil {
			done++
			continue
		}
		fails(t, err, ErrCancelled)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		cancelledSteps++
	}
	close(stop)
	ok(t, <-stopped)
	equal(t, cancelledSteps, 3)
	after := must[StepInfo](t)(trainer.Step(ctx, batch))
	equal(t, after.Step, before.Step+done+1)

	over, cancel := context.WithCancel(ctx)
	cancel()
	_, err := trainer.Eval(over, batch, false)
	fails(t, err, ErrCancelled)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// stopsNoOther makes a call many times with contexts that are done soon, and beside that without one.
func stopsNoOther(t *testing.T, call func(ctx context.Context) error) {
	t.Helper()
	end, done := time.Now().Add(300*time.Millisecond), int64(0)
	var all sync.WaitGroup
	all.Add(3)
	go func() {
		defer all.Done()
		for time.Now().Before(end) || done == 0 {
			if err := call(ctx); err == nil {
				done++
			} else if !errors.Is(err, ErrBusy) {
				t.Error(err)
				return
			}
		}
	}()
	for i := 0; i < 2; i++ {
		go func() {
			defer all.Done()
			for time.Now().Before(end) {
				limited, cancel := context.WithCancel(ctx)
				go cancel()
				if err := call(limited); err != nil && !errors.Is(err, ErrBusy) && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
		}()
	}
	all.Wait()
}

func TestAContextStopsNoOtherCall(t *testing.T) {
	c := newContext(t, ContextOptions{})
	m, trainer := newTrainer(t, c)
	batch := smallBatch(t, c, 1)
	stopsNoOther(t, func(ctx context.Context) error { _, err := trainer.Step(ctx, batch); return err })
	slot := must[*Slot](t)(must[*Predictor](t)(NewPredictor(m, nil)).NewSlot())
	stopsNoOther(t, func(ctx context.Context) error { _, err := slot.Run(ctx, batch[:1]); return err })
	kind := JSON{"arrays": []JSON{{"name": "x"}}}
	loader := must[*Loader](t)(NewSamplesLoader(c, fixed{"x": []float32{1}}, kind, JSON{"batch_size": 2}, nil))
	stopsNoOther(t, func(ctx context.Context) error { _, err := loader.Next(ctx); return err })
}

func TestMetadataIsOneValue(t *testing.T) {
	c := newContext(t, ContextOptions{})
	_, trainer := newTrainer(t, c)
	path := filepath.Join(t.TempDir(), "a.ckpt")
	write := func(i int) error {
		return trainer.SetMetadata("key", strings.Repeat(string(rune('a'+i%26)), 300000+i))
	}
	ok(t, write(0))
	ok(t, trainer.Save(path, PartAll))
	end := time.Now().Add(300 * time.Millisecond)
	var all sync.WaitGroup
	repeat := func(call func(i int) error) {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := 0; time.Now().Before(end); i++ {
				if err := call(i); err != nil && !errors.Is(err, ErrBusy) {
					t.Error(err)
				}
			}
		}()
	}
	repeat(write)
	repeat(func(int) error { _, err := trainer.Load(path, PartAll); return err })
	for i := 0; i < 2; i++ {
		repeat(func(int) error {
			text, err := trainer.Metadata("key")
			if err == nil && strings.Count(text, text[:1]) != len(text) {
				err = errors.New("parts of two values")
			}
			return err
		})
	}
	all.Wait()
}

func TestManyGoroutinesPredict(t *testing.T) {
	c := newContext(t, ContextOptions{})
	m := must[*Model](t)(NewModel(c, "cnn", small))
	ok(t, m.Initialize(3))
	p := must[*Predictor](t)(NewPredictor(m, JSON{"max_batch": 8}))
	equal(t, p.MaxBatch, 8)
	equal(t, p.Inputs, []TensorSpec{{"image", "f32", []int64{8, 8, 1}}})
	equal(t, p.Outputs, []TensorSpec{{"logits", "f32", []int64{3}}, {"probabilities", "f32", []int64{3}}})
	exported := filepath.Join(t.TempDir(), "small.onnx")
	must[json.RawMessage](t)(p.Export(exported, "onnx"))
	must[fs.FileInfo](t)(os.Stat(exported))
	_, err := p.Export(exported, "other")
	fails(t, err, ErrInvalid)
	predict := func(seed int64) ([]float32, error) {
		out, err := p.Predict(ctx, smallBatch(t, c, seed)[0])
		if err != nil {
			return nil, err
		}
		defer closeAll(out)
		return Read[float32](out[0])
	}
	var expected [][]float32
	for seed := int64(0); seed < 32; seed++ {
		expected = append(expected, must[[]float32](t)(predict(seed)))
	}
	if reflect.DeepEqual(expected[0], expected[1]) {
		t.Fatal("all the same")
	}
	var all sync.WaitGroup
	for g := 0; g < 64; g++ {
		all.Add(1)
		go func(g int64) {
			defer all.Done()
			for i := int64(0); i < 5; i++ {
				seed := (g + i) % 32
				if actual, err := predict(seed); err != nil || !reflect.DeepEqual(actual, expected[seed]) {
					t.Errorf("%v, %v instead of %v", err, actual, expected[seed])
				}
			}
		}(int64(g))
	}
	all.Wait()
	slot := must[*Slot](t)(p.NewSlot())
	ok(t, slot.Prepare(2))
	must[json.RawMessage](t)(slot.Profile(2, 1))
	first := must[[]*Tensor](t)(slot.Run(ctx, smallBatch(t, c, 5)[:1]))
	equal(t, must[[]float32](t)(Read[float32](first[0])), expected[5])
	must[[]*Tensor](t)(slot.Run(ctx, smallBatch(t, c, 6)[:1]))
	if _, err := first[0].Info(); !errors.Is(err, fs.ErrClosed) {
		t.Fatalf("%v: outputs outlive the next run", err)
	}
	_, err = p.Predict(ctx)
	fails(t, err, ErrInvalid)
	ok(t, p.Close())
	_, err = predict(0)
	fails(t, err, ErrInvalid)
}

func TestAContextStopsAPrediction(t *testing.T) {
	c := newContext(t, ContextOptions{})
	m := must[*Model](t)(NewModel(c, "resnet18", JSON{"width": 32}))
	ok(t, m.Initialize(3))
	p := must[*Predictor](t)(NewPredictor(m, nil))
	batch := newBatch(t, c, 1, 64, 32, 32, 3)
	must[[]*Tensor](t)(p.Predict(ctx, batch[0]))
	for i := 0; i < 1000; i++ {
		limited, cancel := context.WithTimeout(ctx, time.Millisecond)
		_, err := p.Predict(limited, batch[0])
		cancel()
		if err != nil {
			fails(t, err, ErrCancelled)
			must[[]*Tensor](t)(p.Predict(ctx, batch[0]))
			return
		}
	}
	t.Fatal("no prediction was stopped")
}

func TestOwnNetwork(t *testing.T) {
	c := newContext(t, ContextOptions{})
	g := must[*Graph](t)(NewGraph(c, "line"))
	value := must[Value](t)
	x := value(g.Input("x", JSON{"shape": []int{2}}))
	label := value(g.Input("label", JSON{"dtype": "i32", "label": true, "range": []int{0, 3}}))
	_, err := g.Layer("linaer", "fc", nil, x)
	fails(t, err, ErrNotFound)
	_, err = g.Layer("softmax_cross_entropy", "fc", nil, x)
	equal(t, fails(t, err, ErrInvalid).OpPath, "fc")
	y := value(g.Layer("linear", "fc", JSON{"features": 3}, x))
	ok(t, g.Output("loss", value(g.Layer("softmax_cross_entropy", "ce", nil, y, label)), 0, nil))
	ok(t, g.Output("logits", y, 0, nil))
	must[json.RawMessage](t)(g.Report())
	m := must[*Model](t)(g.Finish())
	trainer := must[*Trainer](t)(NewTrainer(m, TrainerOptions{BatchSize: rows, LearningRate: 0.1, Config: `{"optimizer": {"name": "adam"}}`}))
	batch := newBatch(t, c, 1, rows, 2)
	first := must[StepInfo](t)(trainer.Step(ctx, batch))
	for i := 0; i < 20; i++ {
		must[StepInfo](t)(trainer.Step(ctx, batch))
	}
	if last := must[StepInfo](t)(trainer.Step(ctx, batch)); last.Loss >= first.Loss {
		t.Fatal(last.Loss)
	}
}

// fashion writes a source in the format of Fashion-MNIST: image i has all pixels i, label i % 10.
func fashion(t *testing.T, train int) string {
	t.Helper()
	folder := t.TempDir()
	for prefix, n := range map[string]int{"train": train, "t10k": 7} {
		words := func(words ...uint32) *bytes.Buffer {
			var b bytes.Buffer
			ok(t, binary.Write(&b, binary.BigEndian, words))
			return &b
		}
		pixels, labels := words(0x803, uint32(n), 28, 28), words(0x801, uint32(n))
		for i := 0; i < n; i++ {
			pixels.Write(bytes.Repeat([]byte{byte(i)}, 28*28))
			labels.WriteByte(byte(i % 10))
		}
		ok(t, os.WriteFile(filepath.Join(folder, prefix+"-images-idx3-ubyte"), pixels.Bytes(), 0o666))
		ok(t, os.WriteFile(filepath.Join(folder, prefix+"-labels-idx1-ubyte"), labels.Bytes(), 0o666))
	}
	return folder
}

func TestDataSets(t *testing.T) {
	c := newContext(t, ContextOptions{})
	source, set := fashion(t, 21), filepath.Join(t.TempDir(), "set")
	enough := errors.New("enough")
	_, err := ConvertDataset(ctx, c, "fashion_mnist", source, set, nil, func(string, int64, int64) error { return enough })
	fails(t, err, ErrCancelled)
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	says(t, err, ": enough")
	over, cancel := context.WithCancel(ctx)
	cancel()
	_, err = ConvertDataset(over, c, "fashion_mnist", source, set, nil, nil)
	if fails(t, err, ErrCancelled); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	calls := 0
	must[json.RawMessage](t)(ConvertDataset(ctx, c, "fashion_mnist", source, set, JSON{"shards": 2}, func(phase string, done, total int64) error {
		calls++
		return nil
	}))
	if calls == 0 {
		t.Fatal("no progress")
	}
	ok(t, VerifyDataset(ctx, c, set, nil))
	must[json.RawMessage](t)(DatasetReport(set))
	must[json.RawMessage](t)(Datasets())
	fails(t, ExportDataset(ctx, c, set, t.TempDir(), nil, nil), ErrUnsupported)

	config := JSON{"batch_size": 5, "seed": 3, "epochs": 2}
	labels := func(l *Loader) (all []int32) {
		for {
			batch, err := l.Next(ctx)
			if err == io.EOF {
				return all
			}
			ok(t, err)
			equal(t, batch.Valid, 5)
			equal(t, must[TensorInfo](t)(batch.Tensors[0].Info()).Shape, []int64{5, 28, 28, 1})
			all = append(all, must[[]int32](t)(Read[int32](batch.Tensors[1]))...)
		}
	}
	loader := must[*Loader](t)(NewLoader(c, set, "train", config, JSON{"flip_horizontal": 0.5}))
	whole := labels(loader)
	equal(t, len(whole), 2*20)
	ok(t, loader.SeekEpoch(1))
	equal(t, labels(loader), whole[20:])

	other := must[*Loader](t)(NewLoader(c, set, "train", config, nil))
	batch := must[Batch](t)(other.Next(ctx))
	_, trainer := newTrainer(t, c)
	ok(t, trainer.SetMetadata(Cursor, must[string](t)(other.Cursor())))
	must[Batch](t)(other.Next(ctx))
	_, err = Read[float32](batch.Tensors[0])
	if !errors.Is(err, fs.ErrClosed) {
		t.Fatalf("%v: a batch outlives the next", err)
	}
	ok(t, other.Restore(must[string](t)(trainer.Metadata(Cursor))))
	equal(t, labels(other), whole[5:])
	fails(t, other.Restore("no cursor"), ErrFormat)
	must[json.RawMessage](t)(other.Report())
	ok(t, other.Close())
	if _, err = other.Next(ctx); !errors.Is(err, fs.ErrClosed) {
		t.Fatal(err)
	}
}

func TestAContextStopsALoader(t *testing.T) {
	c := newContext(t, ContextOptions{})
	set := filepath.Join(t.TempDir(), "set")
	must[json.RawMessage](t)(ConvertDataset(ctx, c, "fashion_mnist", fashion(t, 20000), set, nil, nil))
	slow := JSON{"rotation_degrees": 180}
	config := JSON{"batch_size": 20000, "workers": 1, "prefetch": 1, "order": "sequential", "cache_mib": 0}
	loader := must[*Loader](t)(NewLoader(c, set, "train", config, slow))
	limited, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err := loader.Next(limited)
	fails(t, err, ErrCancelled)
	batch := must[Batch](t)(loader.Next(ctx)) // goes on
	equal(t, must[[]int32](t)(Read[int32](batch.Tensors[1]))[:12], []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1})
}

// numbers are samples of the program, of which one may fail.
type numbers struct {
	failure atomic.Pointer[error]
}

func (n *numbers) Len() int { return 9 }

func (n *numbers) Sample(i int) (Sample, error) {
	if failure := n.failure.Load(); i == 5 && failure != nil {
		return nil, *failure
	}
	return Sample{"x": []float32{float32(i), -float32(i)}, "y": []int32{int32(i)}}, nil
}

// fixed is a sample that is the same for all numbers.
type fixed Sample

func (f fixed) Len() int                   { return 2 }
func (f fixed) Sample(int) (Sample, error) { return Sample(f), nil }

func TestSamplesOfTheProgram(t *testing.T) {
	c := newContext(t, ContextOptions{})
	kind := JSON{"arrays": []JSON{{"name": "x", "shape": []int{2}}, {"name": "y", "dtype": "i32", "label": true}}}
	config := JSON{"batch_size": 4, "order": "sequential", "last_batch": "pad", "epochs": 1, "workers": 3}
	data, freed := new(numbers), make(chan struct{})
	failure := fs.ErrPermission
	data.failure.Store(&failure)
	runtime.SetFinalizer(data, func(*numbers) { close(freed) })
	loader := must[*Loader](t)(NewSamplesLoader(c, data, kind, config, nil))
	equal(t, loader.Arrays[1].Name, "y")
	labels := func() []int32 {
		t.Helper()
		batch := must[Batch](t)(loader.Next(ctx))
		return must[[]int32](t)(Read[int32](batch.Tensors[1]))
	}
	equal(t, labels(), []int32{0, 1, 2, 3})
	for i := 0; i < 2; i++ {
		_, err := loader.Next(ctx)
		if fails(t, err, ErrCallback); !errors.Is(err, fs.ErrPermission) {
			t.Fatal(err)
		}
		says(t, err, ": permission denied")
	}
	data.failure.Store(nil)
	equal(t, labels(), []int32{4, 5, 6, 7})
	equal(t, labels(), []int32{8, -1, -1, -1})
	if _, err := loader.Next(ctx); err != io.EOF {
		t.Fatal(err)
	}
	ok(t, loader.SeekEpoch(0))
	equal(t, labels(), []int32{0, 1, 2, 3})
	loader.last.replace(nil)
	ok(t, loader.Close())

	for _, bad := range []struct {
		sample fixed
		end    string
	}{
		{fixed{"x": []float64{1, 2}}, ` is of type []float64, expected []uint8, []int32, []int64 or []float32`},
		{fixed{"x": []float32{1, 2}}, `array "y" was not given`},
		{fixed{"z": []uint8{}}, ` was given, expected "x" or "y"`},
	} {
		other := must[*Loader](t)(NewSamplesLoader(c, bad.sample, kind, config, nil))
		_, err := other.Next(ctx)
		fails(t, err, ErrCallback)
		says(t, err, bad.end)
	}
	_, err := NewSamplesLoader(c, data, JSON{"kind": "picture"}, config, nil)
	fails(t, err, ErrInvalid)
	data = nil
	for i := 0; i < 200; i++ {
		runtime.GC()
		select {
		case <-freed:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatal("the samples are not released")
}

func TestTheHostDecodesPictures(t *testing.T) {
	source, set := t.TempDir(), filepath.Join(t.TempDir(), "set")
	put := func(name string, contents []byte) {
		path := filepath.Join(source, "train", name)
		ok(t, os.MkdirAll(filepath.Dir(path), 0o777))
		ok(t, os.WriteFile(path, contents, 0o666))
	}
	grey := func(side int, level uint8) []byte {
		picture := image.NewGray(image.Rect(0, 0, side, side))
		for i := range picture.Pix {
			picture.Pix[i] = level
		}
		picture.SetGray(0, 0, color.Gray{level})
		var file bytes.Buffer
		ok(t, png.Encode(&file, picture))
		return file.Bytes()
	}
	put("a/1.png", grey(2, 0x50))
	put("b/2.png", grey(4, 0x90))
	put("b/3.png", []byte("else"))
	var logged sync.Map
	short := false
	c := newContext(t, ContextOptions{
		LogLevel: LogDebug,
		Log:      func(level LogLevel, component, text string) { logged.Store(component, text) },
		ReadImage: func(file []byte) ([]Picture, error) {
			decoded, err := png.Decode(bytes.NewReader(file))
			if err != nil {
				return nil, err
			}
			grey := decoded.(*image.Gray)
			size := grey.Rect.Size()
			p := Picture{Height: size.Y, Width: size.X, Channels: 1, Bits: 8, RowBytes: grey.Stride, Data: grey.Pix}
			if short {
				p.Data = p.Data[1:]
			}
			return []Picture{p}, nil
		},
	})
	report := must[json.RawMessage](t)(ConvertDataset(ctx, c, "imagenet", source, set, nil, nil))
	var manifest struct {
		Splits []struct{ Records string }
	}
	ok(t, json.Unmarshal(report, &manifest))
	equal(t, manifest.Splits[0].Records, "2")
	loader := must[*Loader](t)(NewLoader(c, set, "train", JSON{"batch_size": 2, "order": "sequential"}, JSON{"crop": "stretch", "size": 4, "scale": 1}))
	batch := must[Batch](t)(loader.Next(ctx))
	pixels := must[[]float32](t)(Read[float32](batch.Tensors[0]))
	for row, label := range must[[]int32](t)(Read[int32](batch.Tensors[1])) {
		equal(t, pixels[row*48], []float32{0x50, 0x90}[label])
	}
	if _, ok := logged.Load("context"); !ok {
		t.Fatal("no log")
	}
	short = true
	_, err := ConvertDataset(ctx, c, "imagenet", source, set+"2", nil, nil)
	fails(t, err, ErrCallback)
}

// leaving is data whose samples leave the function that gives them in a way of their own.
type leaving func()

func (f leaving) Len() int { return 2 }
func (f leaving) Sample(int) (Sample, error) {
	f()
	return Sample{"x": []float32{1}}, nil
}

type writer func()

func (f writer) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

// leaveFrom lets a function of the program be left while the library calls it.
func leaveFrom(t *testing.T, where string, leave func()) {
	defer func() { recover() }() // must not be reached
	c := newContext(t, ContextOptions{})
	switch where {
	case "log":
		c := must[*Context](t)(NewContext(ContextOptions{LogLevel: LogDebug, Log: func(LogLevel, string, string) { leave() }}))
		newTrainer(t, c)
	case "sample":
		loader := must[*Loader](t)(NewSamplesLoader(c, leaving(leave), JSON{"arrays": []JSON{{"name": "x"}}}, JSON{"batch_size": 1}, nil))
		must[Batch](t)(loader.Next(ctx))
	case "writer":
		_, trainer := newTrainer(t, c)
		ok(t, trainer.SaveTo(writer(leave), PartAll))
	}
}

func TestWhoLeavesACallbackEndsTheProgram(t *testing.T) {
	const variable = "ASSAY_TEST_LEAVE"
	ways := map[string]func(){
		"panic":  func() { panic("by the program") },
		"nil":    func() { panic(nil) },
		"Goexit": runtime.Goexit,
	}
	if words := strings.Fields(os.Getenv(variable)); len(words) == 2 {
		leaveFrom(t, words[0], ways[words[1]])
		os.Exit(0) // must not be reached
	}
	for _, where := range []string{"log", "sample", "writer"} {
		for way, reason := range map[string]string{
			"panic":  "panic: by the program",
			"nil":    "panic: ", // from Go 1.21 on it has a text of its own
			"Goexit": "panic: assay: runtime.Goexit or panic(nil)",
		} {
			limited, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			command := exec.CommandContext(limited, os.Args[0], "-test.run", t.Name())
			command.Env = append(os.Environ(), variable+"="+where+" "+way)
			output, err := command.CombinedOutput()
			if err == nil || limited.Err() != nil || !strings.Contains(string(output), reason) || !strings.Contains(string(output), "assay_test.go") {
				t.Fatalf("%s, %s: %v: %s", where, way, err, output)
			}
		}
	}
}

func TestText(t *testing.T) {
	const pieces = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nwho\nis\nit\n?\nann\n##a\n.\n"
	v := must[*Vocabulary](t)(ParseVocabulary(pieces, nil))
	equal(t, must[string](t)(v.Contents()), pieces)
	equal(t, must[[]Piece](t)(v.Tokenize("It is Anna")), []Piece{{7, 0, 2}, {6, 3, 5}, {9, 6, 9}, {10, 9, 10}})
	equal(t, must[[]Piece](t)(v.Tokenize("")), []Piece(nil))
	file := filepath.Join(t.TempDir(), "vocab.txt")
	ok(t, os.WriteFile(file, []byte(pieces), 0o666))
	v = must[*Vocabulary](t)(OpenVocabulary(file, JSON{"longest_word": 3}))
	equal(t, must[[]Piece](t)(v.Tokenize("Anna")), []Piece{{1, 0, 4}})
	v = must[*Vocabulary](t)(OpenVocabulary(file, nil))

	q := must[*Question](t)(NewQuestion(v, "Who is it?", "It is Anna.", JSON{"sequence_length": 16, "stride": 4, "max_question": 5}))
	ids, types, lengths, err := q.Windows()
	ok(t, err)
	equal(t, lengths, []int32{12})
	equal(t, ids, []int32{2, 5, 6, 7, 8, 3, 7, 6, 9, 10, 11, 3, 0, 0, 0, 0})
	equal(t, types[5:13], []int32{0, 1, 1, 1, 1, 1, 1, 0})
	start, end := make([]float32, 16), make([]float32, 16)
	start[8], end[9] = 5, 5
	answer := func(report json.RawMessage, err error) string {
		ok(t, err)
		var a struct{ Answer string }
		ok(t, json.Unmarshal(report, &a))
		return a.Answer
	}
	equal(t, answer(q.Answer(start, end, nil)), "Anna")
	_, err = q.Answer(start, end[1:], nil)
	fails(t, err, ErrInvalid)
	spans := Spans{1, 2, 1, []int32{8, 6}, []float32{-1, -2}, []int32{9, 6}, []float32{-1, -1}, []float32{-3}}
	equal(t, answer(q.AnswerSpans(spans, nil)), "Anna")
	equal(t, answer(q.AnswerSpans(spans, JSON{"null_threshold": -5})), "")
	spans.End = nil
	_, err = q.AnswerSpans(spans, nil)
	fails(t, err, ErrInvalid)

	folder := t.TempDir()
	squad, predictions := filepath.Join(folder, "squad.json"), filepath.Join(folder, "predictions.json")
	ok(t, os.WriteFile(squad, []byte(`{"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": "It is Anna.", "qas": [
		{"id": "1", "question": "Who is it?", "answers": [{"text": "Anna", "answer_start": 6}]}]}]}]}`), 0o666))
	s := must[*Squad](t)(OpenSquad(squad))
	equal(t, [2]int64{s.Questions, int64(s.Version)}, [2]int64{1, 1})
	again, _, _, err := must[*Question](t)(s.Question(0, v, JSON{"sequence_length": 16, "stride": 4, "max_question": 5})).Windows()
	ok(t, err)
	equal(t, again, ids)
	ok(t, s.Answer(0, "anna"))
	ok(t, s.Save(predictions))
	var score struct{ All struct{ Exact float64 } }
	ok(t, json.Unmarshal(must[json.RawMessage](t)(ScoreSquad(squad, predictions)), &score))
	equal(t, score.All.Exact, 100)

	c := newContext(t, ContextOptions{})
	_, trainer := newTrainer(t, c)
	must[StepInfo](t)(trainer.Step(ctx, smallBatch(t, c, 1)))
	ok(t, v.Attach(trainer))
	checkpoint := filepath.Join(folder, "a.ckpt")
	ok(t, trainer.Save(checkpoint, PartAll))
	equal(t, must[string](t)(must[*Vocabulary](t)(OpenVocabulary(checkpoint, nil)).Contents()), pieces)
}

func TestDetections(t *testing.T) {
	d := must[*Detections](t)(NewDetections())
	ok(t, d.Add(7, 2, []float32{1, 2, 3, 5, 0, 0, 0, 0}, []float32{0.5, 0}, []int32{2, -1}))
	fails(t, d.Add(7, 2, []float32{1}, []float32{0.5}, []int32{2}), ErrInvalid)
	folder := t.TempDir()
	results, instances := filepath.Join(folder, "results.json"), filepath.Join(folder, "instances.json")
	ok(t, d.Save(results))
	var saved []struct {
		ImageID    int64 `json:"image_id"`
		CategoryID int64 `json:"category_id"`
		Bbox       []float64
		Score      float64
	}
	ok(t, json.Unmarshal(must[[]byte](t)(os.ReadFile(results)), &saved))
	equal(t, fmt.Sprint(saved), "[{7 3 [4 2 6 4] 0.5}]")
	again := must[*Detections](t)(OpenDetections(results))
	images, detections, err := again.Size()
	ok(t, err)
	equal(t, [2]int64{images, detections}, [2]int64{1, 1})
	ok(t, os.WriteFile(instances, []byte(`{"images": [{"id": 7, "file_name": "7.jpg", "width": 20, "height": 20}], "categories": [{"id": 3, "name": "c"}],
		"annotations": [{"id": 1, "image_id": 7, "category_id": 3, "bbox": [4, 2, 6, 4], "area": 24, "iscrowd": 0}]}`), 0o666))
	var score struct{ All struct{ AP float64 } }
	ok(t, json.Unmarshal(must[json.RawMessage](t)(again.Score(instances, nil)), &score))
	if score.All.AP < 0.999 {
		t.Fatal(score)
	}
}

func TestManyGoroutinesDetect(t *testing.T) {
	const goroutines, each = 8, 200
	d := must[*Detections](t)(NewDetections())
	var all sync.WaitGroup
	for g := int64(0); g < goroutines; g++ {
		all.Add(1)
		go func(g int64) {
			defer all.Done()
			for i := int64(0); i < each; i++ {
				if err := d.Add(g*each+i, 1, []float32{0, 0, 1, 1}, []float32{1}, []int32{0}); err != nil {
					t.Error(err)
				}
				if _, _, err := d.Size(); err != nil {
					t.Error(err)
				}
			}
		}(g)
	}
	all.Wait()
	images, _, err := d.Size()
	ok(t, err)
	equal(t, images, goroutines*each)
}

func TestAChannelIsForOneCallAtATime(t *testing.T) {
	c := newContext(t, ContextOptions{})
	comm := must[*Comm](t)(NewComm(c, must[CommID](t)(NewCommID("local")), 0, 1, time.Second))
	m := must[*Model](t)(NewModel(c, "cnn", small))
	options := TrainerOptions{BatchSize: rows, LearningRate: 0.05, Comm: comm, Config: `{"optimizer": {"name": "sgd"}}`}
	trainer := must[*Trainer](t)(NewTrainer(m, options))
	batch := smallBatch(t, c, 1)
	path := filepath.Join(t.TempDir(), "a.ckpt")
	calls := []func() error{
		func() error { _, err := comm.Gather("here"); return err },
		func() error { _, err := trainer.Step(ctx, batch); return err },
		func() error { _, err := trainer.Eval(ctx, batch, false); return err },
		func() error { return trainer.Save(path, PartAll) },
		func() error { return trainer.SaveTo(io.Discard, PartAll) },
		func() error { _, err := trainer.Load(path, PartAll); return err },
		func() error { _, err := trainer.Profile(1); return err },
	}
	leave, err := comm.channel.enter()
	ok(t, err)
	for _, call := range calls {
		fails(t, call(), ErrBusy)
	}
	_, err = NewTrainer(must[*Model](t)(NewModel(c, "cnn", small)), options)
	fails(t, err, ErrBusy)
	ok(t, trainer.SetMetadata("of", "the host"))
	leave()
	for _, call := range calls {
		ok(t, call())
	}
}

func TestRanksAreGoroutines(t *testing.T) {
	c := newContext(t, ContextOptions{})
	id := must[CommID](t)(NewCommID("local"))
	var all sync.WaitGroup
	weights := make([][]float32, 2)
	for rank := range weights {
		all.Add(1)
		go func(rank int) {
			defer all.Done()
			comm, err := NewComm(c, id, rank, len(weights), 20*time.Second)
			if err != nil {
				t.Error(err)
				return
			}
			defer comm.Close()
			if texts, err := comm.Gather(fmt.Sprint("rank ", rank)); err != nil || !reflect.DeepEqual(texts, []string{"rank 0", "rank 1"}) {
				t.Error(texts, err)
			}
			m, err := NewModel(c, "cnn", small)
			if err != nil {
				t.Error(err)
				return
			}
			trainer, err := NewTrainer(m, TrainerOptions{BatchSize: rows, LearningRate: 0.05, Comm: comm, Config: `{"optimizer": {"name": "sgd"}}`})
			if err != nil {
				t.Error(err)
				return
			}
			for i := 0; i < 3; i++ {
				if _, err := trainer.Step(ctx, smallBatch(t, c, int64(rank))); err != nil {
					t.Error(err)
				}
			}
			weight, err := m.Tensor("output.weight", KindValue)
			if err != nil {
				t.Error(err)
				return
			}
			if weights[rank], err = Read[float32](weight); err != nil {
				t.Error(err)
			}
		}(rank)
	}
	all.Wait()
	equal(t, weights[0], weights[1])
}
