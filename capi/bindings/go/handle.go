package assay

// #include <assay/assay.h>
import "C"

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
)

// handle owns an object of the library. Calls hold it while they run, so that Close at any time
// frees it only behind the last of them.
type handle[T any] struct {
	kind   string // for messages: "trainer"
	mu     sync.Mutex
	object *T
	users  int
	closed bool
	free   func(*T)
	host   *host // whose functions the library may call as long as the object lives

	// Held by calls that are to be alone where the library cannot see to it: its memory is read, or its
	// object told to stop, before and behind the call of C.
	inside sync.RWMutex
}

func newHandle[T any](kind string, object *T, free func(*T), host *host) *handle[T] {
	h := &handle[T]{kind: kind, object: object, free: free, host: host}
	runtime.SetFinalizer(h, (*handle[T]).Close)
	return h
}

// Close frees the object, now or when the last call that uses it has returned. It never fails.
func (h *handle[T]) Close() error {
	if h == nil {
		return nil // a zero value
	}
	h.mu.Lock()
	h.closed = true
	object := h.takeUnused()
	h.mu.Unlock()
	h.end(object)
	return nil
}

func (h *handle[T]) isClosed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

// use lends the object until done is called.
func (h *handle[T]) use() (*T, error) {
	if h == nil {
		return nil, &Error{Code: ErrInvalid, Message: "a zero value was used: only what a function of this package made can be"}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errClosed(h.kind)
	}
	h.users++
	return h.object, nil
}

func (h *handle[T]) done() {
	h.mu.Lock()
	h.users--
	object := h.takeUnused()
	h.mu.Unlock()
	h.end(object)
}

// takeUnused gives the object to who is to free it, once; nil as long as it is needed. The lock is held.
func (h *handle[T]) takeUnused() *T {
	if !h.closed || h.users > 0 {
		return nil
	}
	object := h.object
	h.object = nil
	return object
}

// end frees what takeUnused gave. Not under the lock: it may wait for functions of the program, which
// may use the handle.
func (h *handle[T]) end(object *T) {
	if object != nil {
		runtime.SetFinalizer(h, nil)
		h.free(object)
		runtime.KeepAlive(h) // and with it the host
	}
}

// enter lends the object to one call until leave. Another that enters meanwhile gets ErrBusy.
func (h *handle[T]) enter() (object *T, leave func(), err error) {
	if object, err = h.use(); err != nil {
		return nil, nil, err
	}
	if !h.inside.TryLock() {
		h.done()
		return nil, nil, errBusy(h.kind)
	}
	return object, func() { h.inside.Unlock(); h.done() }, nil
}

// enterShared is enter for calls that may meet each other.
func (h *handle[T]) enterShared() (object *T, leave func(), err error) {
	if object, err = h.use(); err != nil {
		return nil, nil, err
	}
	if !h.inside.TryRLock() {
		h.done()
		return nil, nil, errBusy(h.kind)
	}
	return object, func() { h.inside.RUnlock(); h.done() }, nil
}

// call runs a function of the library on the object.
func (h *handle[T]) call(f func(object *T, e **C.assay_error) C.assay_status) error {
	object, err := h.use()
	if err != nil {
		return err
	}
	defer h.done()
	var e *C.assay_error
	status := f(object, &e)
	return failure(status, e)
}

// report runs a function that makes a report of the object.
func (h *handle[T]) report(f func(object *T, out **C.assay_report, e **C.assay_error) C.assay_status) ([]byte, error) {
	object, err := h.use()
	if err != nil {
		return nil, err
	}
	defer h.done()
	return reportOf(func(out **C.assay_report, e **C.assay_error) C.assay_status { return f(object, out, e) })
}

// interruptible runs f, and calls stop until f has returned once ctx is done. Whoever calls it has
// entered the handle that stop stops: the call that it meets can only be f's.
func interruptible(ctx context.Context, stop func(), f func() error) error {
	if ctx.Err() != nil {
		return cancelled(ctx)
	}
	if ctx.Done() == nil {
		return f()
	}
	returned, quiet := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(quiet)
		select {
		case <-returned:
		case <-ctx.Done():
			stopUntil(returned, stop)
		}
	}()
	err := f()
	close(returned)
	<-quiet // or the next call would be stopped
	if ctx.Err() != nil && errors.Is(err, ErrCancelled) {
		return cancelled(ctx)
	}
	return err
}

// stopUntil calls stop again and again: the call may not have begun yet, and nothing stops a call that
// begins later.
func stopUntil(returned <-chan struct{}, stop func()) {
	for {
		stop()
		select {
		case <-returned:
			return
		case <-time.After(time.Millisecond):
		}
	}
}
