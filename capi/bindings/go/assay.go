// Package assay trains, checkpoints and runs deep-learning models inside your own program, through
// libassay's C interface. The headers assay.h, assay_data.h, assay_graph.h and assay_comm.h say what
// every call does and which keys its configuration knows; this package keeps their names and adds
// what Go expects:
//
// Closing. Contexts, models, trainers and so on hold memory of the library. Close gives it back, in
// any order and more than once; a call that runs meanwhile keeps what it uses, and later ones fail
// with fs.ErrClosed. What is forgotten is freed some time after the garbage collector finds it. A
// zero value, which no function here has made, fails likewise, with ErrInvalid; a nil *Context, *Model
// and so on panics as any nil pointer does.
//
// Errors are of type *Error. errors.Is compares codes (ErrNotFound, ErrInvalid, ...), causes
// (context.Canceled, fs.ErrNotExist, what a Progress function returned); errors.As gives the message
// taken apart. Messages are the library's, and call parameters as the headers do, where a few have
// other names than here: config_json is a config or options, map_json a nameMap, sample_json and
// transform_json are NewSamplesLoader's sample and transform, samples->count is what Len gives, io->size
// a size, flags is what a bool says. What is "to be freed" is to be closed.
//
// Goroutines. Any goroutine may make, use and close anything. What a header calls "threads any" may
// run at the same time. Calls that are to be alone get ErrBusy when they meet another of the same
// handle, and do nothing: Trainer's with each other, with its Model and with tensors of its weights,
// Slot's, Graph's and Loader's with each other, Tensor's Write, and what talks to other ranks through
// one Comm. Those of Detections and Squad wait for each other.
//
// Contexts. A call with a context.Context is stopped when that is done, and no other call is. It
// fails with ErrCancelled and has changed nothing; everything may be used again.
//
// Functions that the library calls must return: a panic or runtime.Goexit (testing's FailNow) in one
// ends the program, which prints the stack that led there.
//
// Configurations are JSON: a string or []byte is taken as it is, nil is empty, anything else, such
// as a JSON, is encoded. Reports are JSON as the headers describe it.
//
// The package finds the library with pkg-config, and links the program with the shared one; with
// go build -tags assay_static the static one becomes a part of the program. It has no other
// dependency. examples/train_and_serve is a program, which runs as
//
//	go run assay/examples/train_and_serve a.ckpt 100 localhost:8080
//
// in a module that requires this one.
package assay

// #include <assay/assay.h>
import "C"

import (
	"encoding/json"
	"fmt"
	"unsafe"
)

// JSON is an object of a configuration, for short literals.
type JSON map[string]any

// ABIVersion is what the library offers: major << 16 | minor.
func ABIVersion() uint32 { return uint32(C.assay_abi_version()) }

// Version is the release of the library, "0.1.0".
func Version() string { return goText(C.assay_version_string()) }

// goText copies a text of the library.
func goText(s C.assay_str) string {
	if s.size == 0 {
		return ""
	}
	return string(unsafe.Slice((*byte)(unsafe.Pointer(s.data)), int(s.size)))
}

// cText lends a string to a call: its first word is the address of its bytes.
func cText(s string) C.assay_str {
	return C.assay_str{data: *(**C.char)(unsafe.Pointer(&s)), size: C.size_t(len(s))}
}

// configText is the JSON text of a configuration.
func configText(config any) (string, error) {
	switch c := config.(type) {
	case nil:
		return "", nil
	case string:
		return c, nil
	case []byte:
		return string(c), nil
	case json.RawMessage:
		return string(c), nil
	}
	text, err := json.Marshal(config)
	if err != nil {
		return "", &Error{Code: ErrInvalid, Message: fmt.Sprintf("the configuration is no JSON: %v", err), cause: err}
	}
	return string(text), nil
}

// takeReport copies a report of the library and frees it.
func takeReport(r *C.assay_report) json.RawMessage {
	defer C.assay_report_free(r)
	return json.RawMessage(goText(C.assay_report_text(r)))
}

// reportOf runs a call that makes a report.
func reportOf(call func(out **C.assay_report, e **C.assay_error) C.assay_status) (json.RawMessage, error) {
	var out *C.assay_report
	var e *C.assay_error
	status := call(&out, &e)
	if err := failure(status, e); err != nil {
		return nil, err
	}
	return takeReport(out), nil
}
