package assay

// #include "callbacks.h"
import "C"

import (
	"context"
	"runtime"
	"runtime/cgo"
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

// endOnPanic makes a panic of a callback end the program: it must not pass through the library.
func endOnPanic() {
	if p := recover(); p != nil {
		go panic(p)
		select {}
	}
}

//export assayGoLog
func assayGoLog(user C.uintptr_t, level C.int32_t, component, text C.assay_str) {
	defer endOnPanic()
	functions := cgo.Handle(user).Value().(*hostFunctions)
	functions.log(LogLevel(level), goText(component), goText(text))
}

//export assayGoReadImage
func assayGoReadImage(user C.uintptr_t, file unsafe.Pointer, size C.size_t, give C.assay_go_give, to unsafe.Pointer) C.int32_t {
	defer endOnPanic()
	functions := cgo.Handle(user).Value().(*hostFunctions)
	pictures, err := functions.readImage(unsafe.Slice((*byte)(file), int(size)))
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
	defer endOnPanic()
	state := cgo.Handle(user).Value().(*progressState)
	if state.stopped = state.ctx.Err(); state.stopped == nil && state.progress != nil {
		state.stopped = state.progress(goText(phase), int64(done), int64(total))
	}
	if state.stopped != nil {
		return -1
	}
	return 0
}
