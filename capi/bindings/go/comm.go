package assay

// #include <assay/assay_comm.h>
import "C"

import (
	"sync"
	"time"
	"unsafe"
)

// CommID is what the ranks of one channel have in common: bytes that the program moves from the rank
// that made them to the others.
type CommID [128]byte

// NewCommID makes an id: "local", ranks are goroutines of this process, or "mpi".
func NewCommID(kind string) (CommID, error) {
	var out C.assay_comm_id
	var e *C.assay_error
	status := C.assay_comm_new_id(cText(kind), &out, &e)
	return *(*CommID)(unsafe.Pointer(&out)), failure(status, e)
}

// Comm is one rank's end of a channel between devices that train one model; see assay_comm.h.
type Comm struct {
	*handle[C.assay_comm]
	channel *channel
}

// channel is what a Comm and its trainers talk to other ranks through, one call at a time: the other
// ranks could not tell two of them apart.
type channel struct {
	inside sync.Mutex
}

// enter is handle.enter. A trainer without a Comm has nothing to enter.
func (c *channel) enter() (leave func(), err error) {
	if c == nil {
		return func() {}, nil
	}
	if !c.inside.TryLock() {
		return nil, errBusy("channel")
	}
	return c.inside.Unlock, nil
}

// enter lends the object to a call that talks to the other ranks.
func (c *Comm) enter() (object *C.assay_comm, leave func(), err error) {
	if object, err = c.use(); err != nil {
		return nil, nil, err
	}
	leaveChannel, err := c.channel.enter()
	if err != nil {
		c.done()
		return nil, nil, err
	}
	return object, func() { leaveChannel(); c.done() }, nil
}

// NewComm waits until all ranks have come. timeout is the longest wait for another rank, here and later.
func NewComm(c *Context, id CommID, rank, world int, timeout time.Duration) (*Comm, error) {
	var out *C.assay_comm
	err := c.call(func(c *C.assay_context, e **C.assay_error) C.assay_status {
		return C.assay_comm_create(c, (*C.assay_comm_id)(unsafe.Pointer(&id)), C.int32_t(rank), C.int32_t(world), C.int64_t(timeout.Nanoseconds()), &out, e)
	})
	if err != nil {
		return nil, err
	}
	return &Comm{newHandle("channel", out, func(c *C.assay_comm) { C.assay_comm_free(c) }, c.host), new(channel)}, nil
}

// Gather gives what every rank says. ErrBusy: another call, or one of a trainer, talks to the ranks.
func (c *Comm) Gather(mine string) ([]string, error) {
	_, leave, err := c.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	report, err := c.report(func(c *C.assay_comm, out **C.assay_report, e **C.assay_error) C.assay_status {
		return C.assay_comm_gather(c, cText(mine), out, e)
	})
	if err != nil {
		return nil, err
	}
	var all struct{ Texts []string }
	err = decodeReport(report, &all)
	return all.Texts, err
}

// Abort gives the channel up: calls of all ranks that wait for each other end with ErrComm.
func (c *Comm) Abort() error {
	return c.call(func(c *C.assay_comm, e **C.assay_error) C.assay_status { return C.assay_comm_abort(c, e) })
}
