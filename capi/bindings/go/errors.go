package assay

// #include <assay/assay.h>
import "C"

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
)

// Code says what kind of error an Error is. It is an error itself, for errors.Is.
type Code int32

const (
	ErrInvalid           Code = C.ASSAY_E_INVALID          // an argument, a configuration value, or a call in the wrong state
	ErrUnsupported       Code = C.ASSAY_E_UNSUPPORTED      // a correct request that this build or device cannot serve
	ErrOutOfHostMemory   Code = C.ASSAY_E_OOM_HOST         // out of host memory, or over the context's limit
	ErrOutOfDeviceMemory Code = C.ASSAY_E_OOM_DEVICE       // the same for device memory
	ErrDevice            Code = C.ASSAY_E_DEVICE           // the device or its driver failed
	ErrIO                Code = C.ASSAY_E_IO               // the operating system, an io.Writer or an io.ReaderAt refused an operation
	ErrFormat            Code = C.ASSAY_E_FORMAT           // a file or text is malformed, truncated or damaged
	ErrVersion           Code = C.ASSAY_E_VERSION          // a file of a version unknown here
	ErrNotFound          Code = C.ASSAY_E_NOT_FOUND        // no such file, model, variable or key
	ErrBusy              Code = C.ASSAY_E_BUSY             // in use by another goroutine
	ErrCancelled         Code = C.ASSAY_E_CANCELLED        // a context.Context, Interrupt or a Progress stopped the call
	ErrTimeout           Code = C.ASSAY_E_TIMEOUT          // another rank has not come in time
	ErrComm              Code = C.ASSAY_E_COMM             // another rank failed, left or brought something else
	ErrCallback          Code = C.ASSAY_E_CALLBACK         // a function of the host gave what cannot be used
	ErrNondeterministic  Code = C.ASSAY_E_NONDETERMINISTIC // no deterministic kernel exists for what was asked
	ErrPoisoned          Code = C.ASSAY_E_POISONED         // an earlier failure left this unusable: close it
	ErrInternal          Code = C.ASSAY_E_INTERNAL         // a mistake in the library: please report it
	ErrNonfinite         Code = C.ASSAY_E_NONFINITE        // the loss or a gradient is NaN or infinite; nothing was updated
	ErrEndOfData         Code = C.ASSAY_E_END_OF_DATA      // a loader has no further batch; Loader.Next says io.EOF
)

// String is the code's name: "not_found".
func (c Code) String() string { return goText(C.assay_status_name(C.assay_status(c))) }

func (c Code) Error() string { return "assay: " + c.String() }

// Domain says whose number Error.NativeCode is.
type Domain int32

const (
	DomainNone   Domain = C.ASSAY_DOMAIN_NONE
	DomainErrno  Domain = C.ASSAY_DOMAIN_ERRNO
	DomainOneDNN Domain = C.ASSAY_DOMAIN_ONEDNN
	DomainCUDA   Domain = C.ASSAY_DOMAIN_CUDA
	DomainCUDNN  Domain = C.ASSAY_DOMAIN_CUDNN
	DomainCUBLAS Domain = C.ASSAY_DOMAIN_CUBLAS
	DomainNCCL   Domain = C.ASSAY_DOMAIN_NCCL
	DomainMPI    Domain = C.ASSAY_DOMAIN_MPI
	DomainHost   Domain = C.ASSAY_DOMAIN_HOST
	DomainZIP    Domain = C.ASSAY_DOMAIN_ZIP
)

// Error is what every failing call returns.
type Error struct {
	Code       Code
	Message    string // one line: what was done, found and expected, and what to do
	Domain     Domain
	NativeCode int64
	Retry      bool // the same call may succeed later
	Poisoned   bool // what was used must be closed

	// Empty where they do not apply.
	OpPath   string // the layer, "layer2.0.conv1"
	Argument string // the argument, or the path of the configuration's key: "optimizer.momentum"
	Expected string // "f32[32,28,28,1]", "a number in [0, 1)"
	Actual   string // what was found instead
	Hint     string // what to do: "did you mean \"momentum\"?"

	cause     error
	byProgram bool // the cause is what a function of the program returned, of which Message knows nothing
}

// Error is the message and, behind it, what a function of the program returned.
func (e *Error) Error() string {
	if e.byProgram {
		return "assay: " + e.Message + ": " + e.cause.Error()
	}
	return "assay: " + e.Message
}

// Is reports whether target is the error's Code.
func (e *Error) Is(target error) bool { return target == e.Code }

// Unwrap gives what the error came of: the operating system's error number, a context's error, or
// what a function of the program returned.
func (e *Error) Unwrap() error { return e.cause }

// failure makes an error of what a call returned, and frees the library's.
func failure(status C.assay_status, e *C.assay_error) error {
	if status == C.ASSAY_OK {
		return nil
	}
	defer C.assay_error_free(e)
	var info C.assay_error_info
	info.struct_size = C.sizeof_assay_error_info
	if C.assay_error_get(e, &info) != C.ASSAY_OK {
		return &Error{Code: Code(status), Message: Code(status).String()}
	}
	err := &Error{
		Code:       Code(status),
		Message:    goText(info.message),
		Domain:     Domain(info.domain),
		NativeCode: int64(info.native_code),
		Retry:      info.flags&C.ASSAY_ERROR_RETRY != 0,
		Poisoned:   info.flags&C.ASSAY_ERROR_POISONED != 0,
		OpPath:     goText(info.op_path),
		Argument:   goText(info.argument),
		Expected:   goText(info.expected),
		Actual:     goText(info.actual),
		Hint:       goText(info.hint),
	}
	if err.Domain == DomainErrno {
		err.cause = syscall.Errno(err.NativeCode)
	}
	return err
}

func errClosed(kind string) error {
	return &Error{Code: ErrInvalid, Message: "the " + kind + " was used after Close", cause: fs.ErrClosed}
}

// errBusy is the error of a call that comes while another is inside, as the library has it.
func errBusy(kind string) error {
	return &Error{Code: ErrBusy, Message: "the " + kind + " is in use by another call", Retry: true}
}

// blame makes what a function of the program returned the cause of a failure with this code.
func blame(err error, code Code, cause error) {
	var failed *Error
	if cause != nil && errors.As(err, &failed) && failed.Code == code {
		failed.cause, failed.byProgram = cause, true
	}
}

// cancelled is the error of a call that ctx ended.
func cancelled(ctx context.Context) error {
	return &Error{Code: ErrCancelled, Message: ctx.Err().Error(), Retry: true, cause: ctx.Err()}
}
