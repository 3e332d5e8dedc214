package assay

// #include <assay/assay.h>
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"
)

// DType is the type of a tensor's elements.
type DType int32

const (
	F32  DType = C.ASSAY_F32
	BF16 DType = C.ASSAY_BF16
	F16  DType = C.ASSAY_F16
	F64  DType = C.ASSAY_F64
	I32  DType = C.ASSAY_I32
	I64  DType = C.ASSAY_I64
	U8   DType = C.ASSAY_U8
)

var dtypeNames = map[DType]string{F32: "f32", BF16: "bf16", F16: "f16", F64: "f64", I32: "i32", I64: "i64", U8: "u8"}

// String is the type's name in reports: "f32".
func (d DType) String() string { return dtypeNames[d] }

// Float16 is the bits of an IEEE half.
type Float16 uint16

// BFloat16 is the upper half of a float32's bits.
type BFloat16 uint16

// Element is what tensors hold.
type Element interface {
	float32 | BFloat16 | Float16 | float64 | int32 | int64 | uint8
}

func dtypeOf[T Element]() DType {
	var zero T
	switch any(zero).(type) {
	case float32:
		return F32
	case BFloat16:
		return BF16
	case Float16:
		return F16
	case float64:
		return F64
	case int32:
		return I32
	case int64:
		return I64
	default:
		return U8
	}
}

// Tensor is dense and row-major: the last axis is contiguous. Its memory is the library's.
type Tensor struct {
	*handle[C.assay_tensor]
}

func newTensorHandle(t *C.assay_tensor, h *host) *Tensor {
	return &Tensor{newHandle("tensor", t, func(t *C.assay_tensor) { C.assay_tensor_release(t) }, h)}
}

// NewTensor copies data into a new tensor in host memory. A nil data gives zeros.
func NewTensor[T Element](c *Context, data []T, shape ...int64) (*Tensor, error) {
	t, err := newZeros(c, dtypeOf[T](), shape)
	if err != nil || data == nil {
		return t, err
	}
	if err := Write(t, data); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func newZeros(c *Context, dtype DType, shape []int64) (*Tensor, error) {
	var sizes *C.int64_t
	if len(shape) > 0 {
		sizes = (*C.int64_t)(unsafe.Pointer(&shape[0]))
	}
	var out *C.assay_tensor
	err := c.call(func(c *C.assay_context, e **C.assay_error) C.assay_status {
		return C.assay_tensor_new(c, DeviceID{}.c(), C.assay_dtype(dtype), sizes, C.int32_t(len(shape)), &out, e)
	})
	if err != nil {
		return nil, err
	}
	return newTensorHandle(out, c.host), nil
}

// TensorInfo describes a tensor.
type TensorInfo struct {
	DType    DType
	Shape    []int64
	Device   DeviceID
	Bytes    uint64
	ReadOnly bool // Write is refused
	View     bool // the memory belongs to a model or a loader
}

// Info describes the tensor.
func (t *Tensor) Info() (TensorInfo, error) {
	var info TensorInfo
	err := t.call(func(t *C.assay_tensor, e **C.assay_error) C.assay_status {
		var i C.assay_tensor_info
		i.struct_size = C.sizeof_assay_tensor_info
		status := C.assay_tensor_get_info(t, &i, e)
		if status != C.ASSAY_OK {
			return status
		}
		info = TensorInfo{
			DType:    DType(i.dtype),
			Shape:    make([]int64, int(i.ndim)),
			Device:   DeviceID{DeviceKind(i.device.kind), int32(i.device.index)},
			Bytes:    uint64(i.bytes),
			ReadOnly: i.flags&C.ASSAY_TENSOR_READ_ONLY != 0,
			View:     i.flags&C.ASSAY_TENSOR_VIEW != 0,
		}
		copy(info.Shape, unsafe.Slice((*int64)(unsafe.Pointer(i.shape)), int(i.ndim)))
		return status
	})
	return info, err
}

// elements describes a tensor, whose elements must be of type T, and counts them.
func elements[T Element](t *Tensor) (TensorInfo, int, error) {
	info, err := t.Info()
	if err != nil {
		return info, 0, err
	}
	var zero T
	if want := dtypeOf[T](); info.DType != want {
		return info, 0, &Error{Code: ErrInvalid, Message: fmt.Sprintf("a tensor of %v is no %v", info.DType, want)}
	}
	return info, int(info.Bytes) / int(unsafe.Sizeof(zero)), nil
}

// checkElements compares a slice with the tensor that it is to be copied to or from.
func checkElements[T Element](t *Tensor, data []T) error {
	info, n, err := elements[T](t)
	if err == nil && n != len(data) {
		err = &Error{
			Code: ErrInvalid, Message: fmt.Sprintf("a slice of %d elements was given for a tensor of shape %v, which has %d", len(data), info.Shape, n),
			Expected: fmt.Sprint(n), Actual: fmt.Sprint(len(data)),
		}
	}
	return err
}

// Read copies all elements of a tensor.
func Read[T Element](t *Tensor) ([]T, error) {
	_, n, err := elements[T](t)
	if err != nil {
		return nil, err
	}
	data := make([]T, n)
	return data, ReadInto(t, data)
}

// ReadInto copies all elements of a tensor to dst, which must have their number.
func ReadInto[T Element](t *Tensor, dst []T) error {
	if err := checkElements(t, dst); err != nil {
		return err
	}
	address, bytes := memory(dst)
	return t.call(func(t *C.assay_tensor, e **C.assay_error) C.assay_status {
		defer runtime.KeepAlive(dst)
		return C.assay_tensor_read(t, address, bytes, e)
	})
}

// Write copies all elements from src, which must have their number.
func Write[T Element](t *Tensor, src []T) error {
	if err := checkElements(t, src); err != nil {
		return err
	}
	address, bytes := memory(src)
	return t.call(func(t *C.assay_tensor, e **C.assay_error) C.assay_status {
		defer runtime.KeepAlive(src)
		return C.assay_tensor_write(t, address, bytes, e)
	})
}

// memory lends a slice to a call. The address of no elements is any.
func memory[T any](data []T) (unsafe.Pointer, C.size_t) {
	var nothing [1]T
	if len(data) == 0 {
		return unsafe.Pointer(&nothing), 0
	}
	return unsafe.Pointer(&data[0]), C.size_t(len(data)) * C.size_t(unsafe.Sizeof(nothing[0]))
}

// DLPack lends the tensor to other libraries of this process, without a copy: the address of a
// DLManagedTensorVersioned of dlpack.h, whose deleter is to be called.
func (t *Tensor) DLPack() (unsafe.Pointer, error) {
	var out *C.struct_DLManagedTensorVersioned
	err := t.call(func(t *C.assay_tensor, e **C.assay_error) C.assay_status {
		return C.assay_tensor_to_dlpack(t, &out, e)
	})
	return unsafe.Pointer(out), err
}

// NewTensorFromDLPack takes over a tensor of another library, without a copy: the address of a
// DLManagedTensorVersioned of dlpack.h. After an error it is still the caller's. Its deleter may run on
// any thread, that of Go's finalizers among them.
func NewTensorFromDLPack(c *Context, tensor unsafe.Pointer) (*Tensor, error) {
	var out *C.assay_tensor
	err := c.call(func(c *C.assay_context, e **C.assay_error) C.assay_status {
		return C.assay_tensor_from_dlpack(c, (*C.struct_DLManagedTensorVersioned)(tensor), &out, e)
	})
	if err != nil {
		return nil, err
	}
	return newTensorHandle(out, c.host), nil
}

// lent is a batch as the library takes it, held until done.
type lent struct {
	tensors []*Tensor
	objects []*C.assay_tensor
}

func lend(tensors []*Tensor) (*lent, error) {
	l := &lent{objects: make([]*C.assay_tensor, 0, len(tensors)+1)}
	for i, t := range tensors {
		if t == nil {
			l.done()
			return nil, &Error{Code: ErrInvalid, Message: fmt.Sprintf("tensor %d is nil", i)}
		}
		object, err := t.use()
		if err != nil {
			l.done()
			return nil, err
		}
		l.tensors = append(l.tensors, t)
		l.objects = append(l.objects, object)
	}
	return l, nil
}

func (l *lent) array() (**C.assay_tensor, C.size_t) {
	return &l.objects[:1][0], C.size_t(len(l.objects))
}

func (l *lent) done() {
	for _, t := range l.tensors {
		t.done()
	}
}

// given are the tensors that a loader or slot gave last, which its next call closes, or its end.
type given struct {
	mu      sync.Mutex
	tensors []*Tensor
	ended   bool
}

func (g *given) replace(tensors []*Tensor) {
	g.mu.Lock()
	before := g.tensors
	g.tensors = tensors
	if g.ended { // while they were made
		before, g.tensors = append(before, tensors...), nil
	}
	g.mu.Unlock()
	closeAll(before) // not under the lock: it may wait for functions of the program
}

func (g *given) end() {
	g.mu.Lock()
	g.ended = true
	g.mu.Unlock()
	g.replace(nil)
}

func closeAll(tensors []*Tensor) {
	for _, t := range tensors {
		t.Close()
	}
}
