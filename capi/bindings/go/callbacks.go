package assay

// #include "callbacks.h"
import "C"

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/cgo"
	"runtime/debug"
	"sync"
	"unsafe"
)

// Picture is one picture of a file, as ContextOptions.ReadImage gives it.
type Picture struct {
	Height, Width int
	Channels      int    // 1: grey; 3: red, green, blue; 4: and opacity
	Bits          int    // per channel: 8, or 16 in the order of this machine
	RowBytes      int    // from row to row; 0: rows without gaps
	Data          []byte // rows from the top, channels innermost
}

// complete reports whether Data has all the bytes that the sizes promise.
func (p Picture) complete() bool {
	const most = 1 << 20 // pixels of a side; the library takes no more
	if p.Height <= 0 || p.Width <= 0 || p.Height > most || p.Width > most || p.Channels > 4 || p.Bits > 16 {
		return false
	}
	row := p.Width * p.Channels * p.Bits / 8
	stride := p.RowBytes
	if stride == 0 {
		stride = row
	}
	return row > 0 && stride >= row && stride <= len(p.Data) && len(p.Data) >= (p.Height-1)*stride+row
}

// host holds the functions that the library may call for a context and for all that is made with it.
// Each of those refers to the host, so that its handle outlives them.
type host struct {
	handle cgo.Handle
}

type hostFunctions struct {
	log       func(level LogLevel, component, text string)
	readImage func(file []byte) ([]Picture, error)
}

func newHost(functions hostFunctions) *host {
	h := &host{cgo.NewHandle(&functions)}
	runtime.SetFinalizer(h, func(h *host) { h.handle.Delete() })
	return h
}

// hosted runs a function of the program for the library, whose frames must not be left but by return:
// a panic and a runtime.Goexit end the program, with the stack that they left.
func hosted[T any](f func() T) (result T) {
	returned := false
	defer func() {
		if !returned {
			endProgram(recover())
		}
	}()
	result = f()
	returned = true
	return result
}

// endProgram panics where nobody can recover. The reason is nil of runtime.Goexit and of panic(nil).
func endProgram(reason any) {
	if reason == nil {
		reason = "assay: runtime.Goexit or panic(nil) in a function that the library called"
	}
	fmt.Fprintf(os.Stderr, "assay: a function that the library called did not return:\n%s\n", debug.Stack())
	go panic(reason)
	select {}
}

//export assayGoLog
func assayGoLog(user C.uintptr_t, level C.int32_t, component, text C.assay_str) {
	functions := cgo.Handle(user).Value().(*hostFunctions)
	hosted(func() struct{} {
		functions.log(LogLevel(level), goText(component), goText(text))
		return struct{}{}
	})
}

//export assayGoReadImage
func assayGoReadImage(user C.uintptr_t, file unsafe.Pointer, size C.size_t, give C.assay_go_give, to unsafe.Pointer) C.int32_t {
	functions := cgo.Handle(user).Value().(*hostFunctions)
	var pictures []Picture
	err := hosted(func() (err error) {
		pictures, err = functions.readImage(unsafe.Slice((*byte)(file), int(size)))
		return err
	})
	if err != nil {
		return -1
	}
	for _, p := range pictures {
		var data unsafe.Pointer // nil fails as a mistake of this function
		if p.complete() {
			data = unsafe.Pointer(&p.Data[0])
		}
		C.assay_go_give_picture(give, to, C.int32_t(p.Height), C.int32_t(p.Width), C.int32_t(p.Channels),
			C.int32_t(p.Bits), C.int64_t(p.RowBytes), data)
	}
	return 0
}

// ioState is what the functions below find behind their handle.
type ioState struct {
	writer io.Writer
	reader io.ReaderAt
	err    error // of the last call, behind which the library makes no other if it failed
}

//export assayGoWrite
func assayGoWrite(user C.uintptr_t, src unsafe.Pointer, size C.size_t) C.int32_t {
	state := cgo.Handle(user).Value().(*ioState)
	state.err = hosted(func() error {
		n, err := state.writer.Write(unsafe.Slice((*byte)(src), int(size)))
		if err == nil && n < int(size) {
			err = io.ErrShortWrite
		}
		return err
	})
	if state.err != nil {
		return -1
	}
	return 0
}

//export assayGoRead
func assayGoRead(user C.uintptr_t, dst unsafe.Pointer, size C.size_t, offset C.uint64_t) C.int32_t {
	state := cgo.Handle(user).Value().(*ioState)
	state.err = hosted(func() error {
		n, err := state.reader.ReadAt(unsafe.Slice((*byte)(dst), int(size)), int64(offset))
		if n == int(size) {
			return nil // at the end with io.EOF, perhaps
		}
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
	if state.err != nil {
		return -1
	}
	return 0
}

// Progress is called now and then on the goroutine of the call, with the records of a phase that are
// done. An error stops the call, which then fails with ErrCancelled and that error as its cause.
type Progress func(phase string, done, total int64) error

// progressState is what assayGoProgress finds behind its handle.
type progressState struct {
	ctx      context.Context
	progress Progress // may be nil
	stopped  error
}

//export assayGoProgress
func assayGoProgress(user C.uintptr_t, phase C.assay_str, done, total C.int64_t) C.int32_t {
	state := cgo.Handle(user).Value().(*progressState)
	if state.stopped = state.ctx.Err(); state.stopped == nil && state.progress != nil {
		state.stopped = hosted(func() error { return state.progress(goText(phase), int64(done), int64(total)) })
	}
	if state.stopped != nil {
		return -1
	}
	return 0
}

// Sample is one sample: its parts by name, each a slice of uint8, int32, int64 or float32.
type Sample map[string]any

// Samples is data of the program, asked for by number as an fs.FS is by name.
type Samples interface {
	Len() int
	// Sample gives sample i, from 0: the same whenever it is asked for. Several goroutines may call it
	// at once. An error is the cause of that of Loader.Next, which asks again when it is called again.
	Sample(i int) (Sample, error)
}

// samplesState is what assayGoSample finds behind its handle.
type samplesState struct {
	samples Samples
	mu      sync.Mutex
	last    int32
	failed  map[int32]error // by what the library was told
}

func (s *samplesState) fail(err error) C.int32_t {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.failed[s.last] = err
	return C.int32_t(s.last)
}

// take gives the error of a number. Those before it are asked for no more.
func (s *samplesState) take(number int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.failed[number]
	for each := range s.failed {
		if each <= number {
			delete(s.failed, each)
		}
	}
	return err
}

// forget drops all errors: the samples are asked for anew.
func (s *samplesState) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = map[int32]error{}
}

func givePart[T Element](give C.assay_give, to unsafe.Pointer, name string, data []T) {
	address, _ := memory(data)
	C.assay_go_give_part(give, to, cText(name), C.assay_dtype(dtypeOf[T]()), address, C.size_t(len(data)))
	runtime.KeepAlive(data)
}

//export assayGoSample
func assayGoSample(user C.uintptr_t, index C.int64_t, give C.assay_give, to unsafe.Pointer) C.int32_t {
	state := cgo.Handle(user).Value().(*samplesState)
	var sample Sample
	err := hosted(func() (err error) {
		sample, err = state.samples.Sample(int(index))
		return err
	})
	if err != nil {
		return state.fail(err)
	}
	for name, part := range sample {
		switch data := part.(type) {
		case []uint8:
			givePart(give, to, name, data)
		case []int32:
			givePart(give, to, name, data)
		case []int64:
			givePart(give, to, name, data)
		case []float32:
			givePart(give, to, name, data)
		default:
			return state.fail(fmt.Errorf("part %q of sample %d is of type %T, expected []uint8, []int32, []int64 or []float32", name, int(index), part))
		}
	}
	return 0
}

//export assayGoReleaseSamples
func assayGoReleaseSamples(user C.uintptr_t) {
	cgo.Handle(user).Delete()
}
