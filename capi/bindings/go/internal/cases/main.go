// Runs capi/bindings/cases/cases.txt, which says how, in the folder that it is started in.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"math"
	"os"
	"strconv"
	"strings"

	"assay"
)

var ctx = context.Background()

type tensor struct {
	shape []int64
	limit uint64 // 0: f32
}

// run is one case.
type run struct {
	c       *assay.Context
	state   uint64
	batch   []tensor
	values  map[string]assay.Value
	graph   *assay.Graph
	model   *assay.Model
	trainer *assay.Trainer
	loader  *assay.Loader
	kept    bytes.Buffer // a checkpoint
}

// pictures are 6 x 5 pixels in three colours, of which those above 99 are refused.
type pictures int

func (p pictures) Len() int { return int(p) }

func (p pictures) Sample(i int) (assay.Sample, error) {
	if i > 99 {
		return nil, errors.New("too many")
	}
	pixels := make([]byte, 6*5*3)
	for k := range pixels {
		pixels[k] = byte(31*i + 7*k)
	}
	return assay.Sample{"image": pixels, "label": []int32{int32(i % 4)}}, nil
}

// draw gives 24 random bits (splitmix64).
func (r *run) draw() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return (z ^ (z >> 31)) >> 40
}

func (r *run) drawBatch() (all []*assay.Tensor, err error) {
	for _, t := range r.batch {
		n := int64(1)
		for _, size := range t.shape {
			n *= size
		}
		numbers, integers := make([]float32, n), make([]int32, n)
		for i := range numbers {
			if t.limit == 0 {
				numbers[i] = float32(r.draw())/8388608 - 1
			} else {
				integers[i] = int32(r.draw() % t.limit)
			}
		}
		var made *assay.Tensor
		if t.limit == 0 {
			made, err = assay.NewTensor(r.c, numbers, t.shape...)
		} else {
			made, err = assay.NewTensor(r.c, integers, t.shape...)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, made)
	}
	return all, nil
}

func digest(data []byte) string {
	h := fnv.New64a()
	h.Write(data)
	return fmt.Sprintf("%016x", h.Sum64())
}

func bits(x float64) string { return fmt.Sprintf("%016x", math.Float64bits(x)) }

func printTensor(t *assay.Tensor) error {
	info, err := t.Info()
	if err != nil {
		return err
	}
	var data []byte
	if info.DType == assay.F32 {
		numbers, err := assay.Read[float32](t)
		if err != nil {
			return err
		}
		for _, x := range numbers {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
		}
	} else {
		integers, err := assay.Read[int32](t)
		if err != nil {
			return err
		}
		for _, x := range integers {
			data = binary.LittleEndian.AppendUint32(data, uint32(x))
		}
	}
	shape := strings.ReplaceAll(strings.Trim(fmt.Sprint(info.Shape), "[]"), " ", "x")
	fmt.Println(digest(data), shape)
	return nil
}

func (r *run) step(batch []*assay.Tensor) error {
	info, err := r.trainer.Step(ctx, batch)
	if err == nil {
		fmt.Println("step", info.Step, bits(info.Loss), bits(info.GradNorm), bits(info.LearningRate))
	}
	return err
}

func (r *run) next(n int, train bool) error {
	for ; n > 0; n-- {
		batch, err := r.loader.Next(ctx)
		if err == io.EOF {
			fmt.Println("end")
			return nil
		} else if err != nil {
			return err
		}
		if train {
			if err := r.step(batch.Tensors); err != nil {
				return err
			}
		}
		fmt.Println("batch", batch.Epoch, batch.Index, batch.Valid)
		for _, t := range batch.Tensors {
			if err := printTensor(t); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) predict(inputs int, config string) error {
	batch, err := r.drawBatch()
	if err != nil {
		return err
	}
	p, err := assay.NewPredictor(r.model, config)
	if err != nil {
		return err
	}
	defer p.Close()
	out, err := p.Predict(ctx, batch[:inputs]...)
	for _, t := range out {
		if err = printTensor(t); err != nil {
			return err
		}
	}
	return err
}

// fails runs what must fail.
func (r *run) fails(verb, rest string) error {
	err := r.do(verb, rest)
	var e *assay.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%s: %v is no *assay.Error", verb, err)
	}
	fmt.Printf("%s | %s | %s\n", e.Code.String(), e.Argument, e.Message)
	return nil
}

func (r *run) layer(rest string) (err error) {
	kind, rest, _ := strings.Cut(rest, " ")
	name, rest, _ := strings.Cut(rest, " ")
	from, keys, _ := strings.Cut(rest, " ")
	var in []assay.Value
	for _, name := range strings.Split(from, ",") {
		in = append(in, r.values[name])
	}
	value, err := r.graph.Layer(kind, name, keys, in...)
	if err == nil {
		r.values[name] = value
	}
	return err
}

func (r *run) do(verb, rest string) (err error) {
	first, second, _ := strings.Cut(rest, " ")
	n, _ := strconv.Atoi(first)
	switch verb {
	case "case":
		*r = run{c: r.c, values: map[string]assay.Value{}}
		r.state, err = strconv.ParseUint(second, 10, 64)
		fmt.Println("case", first)
	case "model":
		var m *assay.Model
		if m, err = assay.NewModel(r.c, first, second); err == nil {
			r.model = m
		}
	case "input":
		if r.graph == nil {
			if r.graph, err = assay.NewGraph(r.c, "cases"); err != nil {
				return err
			}
		}
		r.values[first], err = r.graph.Input(first, second)
	case "layer":
		err = r.layer(rest)
	case "output":
		value, attributes, _ := strings.Cut(second, " ")
		err = r.graph.Output(first, r.values[value], 0, attributes)
	case "finish":
		r.model, err = r.graph.Finish()
	case "describe":
		report, err := r.model.Report()
		if err != nil {
			return err
		}
		fmt.Println("report", digest(report))
	case "trainer":
		r.trainer, err = assay.NewTrainer(r.model, assay.TrainerOptions{Config: rest})
	case "f32", "i32":
		var t tensor
		for _, text := range strings.Split(first, "x") {
			size, _ := strconv.ParseInt(text, 10, 64)
			t.shape = append(t.shape, size)
		}
		t.limit, _ = strconv.ParseUint(second, 10, 64)
		r.batch = append(r.batch, t)
	case "step":
		for ; n > 0; n-- {
			batch, err := r.drawBatch()
			if err != nil {
				return err
			}
			if err := r.step(batch); err != nil {
				return err
			}
		}
	case "eval":
		batch, err := r.drawBatch()
		if err != nil {
			return err
		}
		info, err := r.trainer.Eval(ctx, batch, false)
		if err != nil {
			return err
		}
		fmt.Println("eval", info.Samples, bits(info.LossSum), bits(info.Top1))
	case "tensor":
		kind, _ := strconv.Atoi(second)
		t, err := r.model.Tensor(first, assay.Kind(kind))
		if err != nil {
			return err
		}
		return printTensor(t)
	case "save":
		err = r.trainer.Save(rest, assay.PartAll)
	case "load":
		_, err = r.trainer.Load(rest, assay.PartAll)
	case "open":
		var m *assay.Model
		if m, err = assay.OpenModel(r.c, rest); err == nil {
			r.model = m
		}
	case "save_io":
		r.kept.Reset()
		err = r.trainer.SaveTo(&r.kept, assay.PartAll)
	case "load_io":
		_, err = r.trainer.LoadFrom(bytes.NewReader(r.kept.Bytes()), int64(r.kept.Len()), assay.PartAll)
	case "open_io":
		var m *assay.Model
		if m, err = assay.OpenModelFrom(r.c, bytes.NewReader(r.kept.Bytes()), int64(r.kept.Len())); err == nil {
			r.model = m
		}
	case "cut":
		if n > r.kept.Len() {
			n = r.kept.Len()
		}
		r.kept.Truncate(r.kept.Len() - n)
	case "predict":
		err = r.predict(n, second)
	case "convert":
		target, options, _ := strings.Cut(second, " ")
		_, err = assay.ConvertDataset(ctx, r.c, "fashion_mnist", first, target, options, nil)
	case "loader":
		config, transform, _ := strings.Cut(second, "} {")
		var l *assay.Loader
		if l, err = assay.NewLoader(r.c, "set", first, config+"}", "{"+transform); err == nil {
			r.loader = l
		}
	case "samples":
		texts := strings.Split(second, "} {")
		var l *assay.Loader
		if l, err = assay.NewSamplesLoader(r.c, pictures(n), texts[0]+"}", "{"+texts[1]+"}", "{"+texts[2]); err == nil {
			r.loader = l
		}
	case "next", "train":
		err = r.next(n, verb == "train")
	case "keep":
		cursor, err := r.loader.Cursor()
		if err != nil {
			return err
		}
		return r.trainer.SetMetadata(assay.Cursor, cursor)
	case "resume":
		cursor, err := r.trainer.Metadata(assay.Cursor)
		if err != nil {
			return err
		}
		return r.loader.Restore(cursor)
	case "tokenize":
		v, err := assay.OpenVocabulary("vocab.txt", nil)
		if err != nil {
			return err
		}
		pieces, err := v.Tokenize(rest)
		for _, p := range pieces {
			fmt.Println("piece", p.ID, p.Begin, p.End)
		}
		return err
	case "fails":
		err = r.fails(first, second)
	default:
		err = fmt.Errorf("unknown verb %s", verb)
	}
	return err
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	c, err := assay.NewContext(assay.ContextOptions{Threads: 2})
	if err != nil {
		log.Fatal(err)
	}
	r := run{c: c}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		verb, rest, _ := strings.Cut(line, " ")
		if err := r.do(verb, rest); err != nil {
			log.Fatalf("%s: %v", line, err)
		}
	}
}
