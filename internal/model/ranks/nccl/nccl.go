// Package nccl joins the GPUs of ranks by NCCL, which moves gradients between GPUs without the host's network: over NVLink,
// InfiniBand or sockets. It is an exchange for package ranks, and adds in the same order: the bits are the same.
//
// Ranks still meet over TCP, where each proves that it knows the token. Rank 0 sends the id of the group only over
// these connections, and NCCL accepts no rank without it. NCCL's traffic is not encrypted.
//
// NCCL comes with PyTorch for CUDA (libnccl.so.2), and is loaded when needed. When a rank is lost, its group ends at
// once: its calls are aborted, and the ranks make another group.
package nccl

// #cgo CXXFLAGS: -O2 -DNDEBUG -I/usr/include/torch/csrc/api/include
// #cgo !torchbindings LDFLAGS: -ltorch -ltorch_cpu -lc10 -ldl
// #cgo torchbindings LDFLAGS: -lpairstream_torch
// #include <stdlib.h>
// #include "nccl.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
	"unsafe"

	"github.com/pairstream/pairstream/internal/model/ranks"
)

// pause is the time between two polls of NCCL, which does not notify.
const pause = 100 * time.Microsecond

// errClosed is returned for a sum of a group that has ended.
var errClosed = errors.New("nccl: the group has ended")

// Transport makes exchanges over NCCL.
type Transport struct {
	Device string // of this rank, "cuda" or "cuda:N": each rank has its own
}

// NewID returns an id that rank 0 gives to all ranks of a group.
func (t Transport) NewID() ([]byte, error) {
	id := make([]byte, C.PSN_ID_BYTES)
	return id, remedied(failure("making a group", C.psn_new_id((*C.uchar)(&id[0]))))
}

// remedied adds the remedy for training without the missing library.
func remedied(err error) error {
	if err != nil {
		err = fmt.Errorf("%w: RANK_EXCHANGE=nccl wants a GPU, and PyTorch 2.11 for CUDA with its NCCL; RANK_EXCHANGE=tcp needs neither", err)
	}
	return err
}

// Open joins the other ranks. It returns when all of them have called it.
func (t Transport) Open(ctx context.Context, id []byte, rank, world int) (ranks.Exchange, error) {
	if len(id) != C.PSN_ID_BYTES {
		return nil, fmt.Errorf("nccl: rank 0 gave an id of %d bytes, want %d", len(id), C.PSN_ID_BYTES)
	}
	device := C.CString(t.Device)
	defer C.free(unsafe.Pointer(device))
	r := C.psn_open((*C.uchar)(&id[0]), C.int(rank), C.int(world), device)
	if err := remedied(failure("joining a group", r.error)); err != nil {
		return nil, err
	}
	e := &exchange{group: r.group, rank: rank}
	if err := e.ready(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// exchange is a group of GPUs.
type exchange struct {
	mu    sync.Mutex // held while a sum is made
	group *C.psn_group
	rank  int
}

// AllReduce implements ranks.Exchange. A missing vector counts as -0, which changes no sum.
func (e *exchange) AllReduce(ctx context.Context, p ranks.Plan, vectors [][]float32) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	total := p.Total()
	if total == 0 {
		return nil
	}
	if e.group == nil {
		return errClosed
	}
	if err := e.sum(ctx, p, vectors, total); err != nil {
		return errors.Join(err, e.end())
	}
	return nil
}

func (e *exchange) sum(ctx context.Context, p ranks.Plan, vectors [][]float32, total int) error {
	room := C.psn_room(e.group, C.int64_t(total))
	if err := failure("making room for a sum", room.error); err != nil {
		return err
	}
	values := unsafe.Slice((*float32)(unsafe.Pointer(room.values)), total)
	eachPart(p, values, func(vector int, part []float32) {
		if p.OfRank(e.rank, vector) {
			copy(part, vectors[vector])
			return
		}
		nothing := float32(math.Copysign(0, -1))
		for i := range part {
			part[i] = nothing
		}
	})
	for _, step := range []func() *C.char{
		func() *C.char { return C.psn_scatter(e.group) },
		func() *C.char { return C.psn_gather(e.group) },
		func() *C.char { return C.psn_fetch(e.group) },
	} {
		if err := failure("adding up", step()); err != nil {
			return err
		}
		if err := e.ready(ctx); err != nil {
			return err
		}
	}
	if err := await(ctx, func() C.psn_state { return C.psn_arrived(e.group) }); err != nil {
		return err
	}
	eachPart(p, values, func(vector int, part []float32) { copy(vectors[vector], part) })
	return nil
}

// eachPart calls f for each vector of a plan with its part of the values.
func eachPart(p ranks.Plan, values []float32, f func(vector int, part []float32)) {
	for vector, n := range p.Lengths {
		if n > 0 {
			f(vector, values[:n])
			values = values[n:]
		}
	}
}

// ready waits until NCCL has begun all requested operations.
func (e *exchange) ready(ctx context.Context) error {
	return await(ctx, func() C.psn_state { return C.psn_ready(e.group) })
}

// Close implements ranks.Exchange.
func (e *exchange) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.end()
}

func (e *exchange) end() error {
	if e.group == nil {
		return nil
	}
	defer func() { e.group = nil }()
	return failure("leaving a group", C.psn_close(e.group))
}

// await polls a state until an operation is done.
func await(ctx context.Context, state func() C.psn_state) error {
	for {
		s := state()
		if err := failure("adding up", s.error); err != nil || s.done != 0 {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// failure makes an error from C's message, and frees it.
func failure(what string, text *C.char) error {
	if text == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(text))
	return fmt.Errorf("nccl: %s: %s", what, C.GoString(text))
}
