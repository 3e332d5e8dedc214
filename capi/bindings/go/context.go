package assay

/*
#include "callbacks.h"

void assayGoLog(uintptr_t user, int32_t level, assay_str component, assay_str text);
int32_t assayGoReadImage(uintptr_t user, void *file, size_t size, assay_go_give give, void *to);

static int32_t read_image(uintptr_t user, const void *file, size_t size, assay_go_give give, void *to) {
  return assayGoReadImage(user, (void *)file, size, give, to);
}
static void set_host(assay_host *host, uintptr_t user, int log, int image) {
  host->user = user;
  host->log = log ? assayGoLog : NULL;
  host->read_image = image ? read_image : NULL;
}
*/
import "C"

import (
	"encoding/json"
	"errors"
)

// DeviceKind is the kind of a DeviceID.
type DeviceKind int32

const (
	CPU  DeviceKind = C.ASSAY_DEVICE_CPU
	CUDA DeviceKind = C.ASSAY_DEVICE_CUDA
)

// DeviceID names a device. Its zero is the CPU.
type DeviceID struct {
	Kind  DeviceKind
	Index int32 // among the devices of this kind
}

func (d DeviceID) c() C.assay_device_id {
	return C.assay_device_id{kind: C.int32_t(d.Kind), index: C.int32_t(d.Index)}
}

// Device is what the library knows of a device.
type Device struct {
	ID                DeviceID
	Name, Driver      string
	UnavailableReason string // empty if contexts can be made on it
	MemTotal, MemFree uint64 // bytes
	Threads           int    // CPU: threads a context uses unless told otherwise
}

// Devices lists all devices that the library knows of, usable or not. The CPU comes first.
func Devices() ([]Device, error) {
	var devices []Device
	for i := 0; ; i++ {
		var info C.assay_device_info
		info.struct_size = C.sizeof_assay_device_info
		var e *C.assay_error
		status := C.assay_device_enum(C.size_t(i), &info, &e)
		if err := failure(status, e); errors.Is(err, ErrNotFound) {
			return devices, nil
		} else if err != nil {
			return nil, err
		}
		devices = append(devices, Device{
			ID:                DeviceID{DeviceKind(info.id.kind), int32(info.id.index)},
			Name:              goText(info.name),
			Driver:            goText(info.driver),
			UnavailableReason: goText(info.unavailable_reason),
			MemTotal:          uint64(info.mem_total),
			MemFree:           uint64(info.mem_free),
			Threads:           int(info.n_threads),
		})
	}
}

// LogLevel is the importance of a message.
type LogLevel int32

const (
	LogError   LogLevel = C.ASSAY_LOG_ERROR
	LogWarning LogLevel = C.ASSAY_LOG_WARNING
	LogInfo    LogLevel = C.ASSAY_LOG_INFO
	LogDebug   LogLevel = C.ASSAY_LOG_DEBUG
)

// ContextOptions are all optional.
type ContextOptions struct {
	Device           DeviceID
	Threads          int    // per kernel; 0: as many as the process may use. They spin, see assay_context_options
	MemLimit         uint64 // most bytes of all that is made with the context; 0: no limit
	Nondeterministic bool   // CUDA: kernels whose sums depend on timing may be used

	// Log takes messages for people, on any goroutine, LogLevel (0: LogWarning) and more important.
	Log      func(level LogLevel, component, text string)
	LogLevel LogLevel

	// ReadImage decodes an image file of another format than JPEG, for conversions of data sets.
	// Several goroutines may call it at once. file is lent for the call. An error leaves the file out.
	ReadImage func(file []byte) ([]Picture, error)
}

// Context is a device with its threads, for all that is made with it.
type Context struct {
	*handle[C.assay_context]
}

// NewContext makes a context.
func NewContext(options ContextOptions) (*Context, error) {
	var o C.assay_context_options
	o.struct_size = C.sizeof_assay_context_options
	o.n_threads = C.int32_t(options.Threads)
	o.log_level = C.int32_t(options.LogLevel)
	o.mem_limit = C.uint64_t(options.MemLimit)
	if options.Nondeterministic {
		o.determinism = C.ASSAY_DETERMINISM_OFF
	}
	var functions C.assay_host
	functions.struct_size = C.sizeof_assay_host
	var h *host
	if options.Log != nil || options.ReadImage != nil {
		h = newHost(hostFunctions{options.Log, options.ReadImage})
		C.set_host(&functions, C.uintptr_t(h.handle), toInt(options.Log != nil), toInt(options.ReadImage != nil))
	}
	device := options.Device.c()
	var out *C.assay_context
	var e *C.assay_error
	status := C.assay_context_create(&o, &functions, &device, 1, &out, &e)
	if err := failure(status, e); err != nil {
		return nil, err
	}
	return &Context{newHandle("context", out, func(c *C.assay_context) { C.assay_context_free(c) }, h)}, nil
}

func toInt(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// Interrupt stops every call that now runs with the context, in ErrCancelled. To stop one call give
// it a context.Context.
func (c *Context) Interrupt() error {
	return c.call(func(c *C.assay_context, e **C.assay_error) C.assay_status { return C.assay_context_interrupt(c) })
}

// MemStats counts the memory of models, optimizer state, plans and tensors, in bytes.
type MemStats struct {
	InUse, Peak, Limit, Blocks uint64
}

// MemStats says what all objects of the context hold on its device.
func (c *Context) MemStats(device DeviceID) (MemStats, error) {
	var stats C.assay_mem_stats
	stats.struct_size = C.sizeof_assay_mem_stats
	err := c.call(func(c *C.assay_context, e **C.assay_error) C.assay_status {
		return C.assay_context_mem_stats(c, device.c(), &stats, e)
	})
	return MemStats{uint64(stats.in_use), uint64(stats.peak), uint64(stats.limit), uint64(stats.blocks)}, err
}

// Environment reports what results depend on besides their inputs: library and machine.
func (c *Context) Environment() (json.RawMessage, error) {
	return c.report(func(c *C.assay_context, out **C.assay_report, e **C.assay_error) C.assay_status {
		return C.assay_env_report(c, out, e)
	})
}
