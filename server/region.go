package server

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/shm"
	"github.com/weirgpu/weir/tensor"
)

// lent is what a request has of memory that its client shares with the server: the regions that it
// names, and its inputs as they were read. Nil stands for a request that names none.
type lent struct {
	server  *Server
	regions map[string]*shm.Region
	inputs  map[string]*tensor.Tensor
	buffer  *[]byte // that the inputs are in
	held    int64   // of the server's bytes for bodies
}

// lend takes the regions that a request names, and reads the inputs that are there.
// The error is an *oip.Fault, or of kind oip.ErrRequest; nothing is held then.
func (s *Server) lend(ctx context.Context, r *oip.Request) (l *lent, err error) {
	defer func() {
		if err != nil {
			l.close()
			l = nil
		}
	}()
	var size int64
	reads := false
	for i := range r.Inputs {
		in := &r.Inputs[i]
		if in.Region == nil {
			continue
		}
		reads = true
		if l, err = s.region(ctx, l, in.Region); err != nil {
			return l, fmt.Errorf("input %.200q: %w", in.Name, err)
		}
		// memory that is shared may be of any size without being there
		if in.Region.Size > s.o.Bodies-size {
			return l, oip.Faultf(oip.TooLarge, "input %.200q: more than %d bytes of shared memory "+
				"are asked for: give less", in.Name, s.o.Bodies)
		}
		size += in.Region.Size
	}
	for i := range r.Outputs {
		o := &r.Outputs[i]
		if o.Region == nil {
			continue
		}
		if l, err = s.region(ctx, l, o.Region); err != nil {
			return l, fmt.Errorf("output %.200q: %w", o.Name, err)
		}
	}
	if !reads {
		return l, nil
	}
	return l, l.read(r, size)
}

// region adds a region to those of a request, and holds that the part is in it.
func (s *Server) region(ctx context.Context, l *lent, part *oip.Region) (*lent, error) {
	if s.regions == nil {
		return l, errNoMemory
	}
	if l == nil {
		l = &lent{server: s, regions: map[string]*shm.Region{}}
	}
	if l.regions[part.Name] == nil {
		g, err := s.regions.Get(auth.Owner(ctx), part.Name)
		if err != nil {
			return l, memoryFault(err)
		}
		l.regions[part.Name] = g
	}
	return l, memoryFault(l.regions[part.Name].Holds(part.Offset, part.Size))
}

// copies are buffers for inputs, given back once their request is answered.
var copies = sync.Pool{New: func() any { return new([]byte) }}

// read reads all inputs that lie in regions, which have so many bytes.
func (l *lent) read(r *oip.Request, size int64) error {
	for i := range r.Inputs {
		if err := sized(&r.Inputs[i]); err != nil {
			return err
		}
	}
	if err := l.Hold(size); err != nil {
		return err
	}
	l.buffer = copies.Get().(*[]byte)
	if int64(cap(*l.buffer)) < size {
		*l.buffer = make([]byte, size)
	}
	l.inputs = map[string]*tensor.Tensor{}
	rest := (*l.buffer)[:size]
	for i := range r.Inputs {
		in := &r.Inputs[i]
		if in.Region == nil {
			continue
		}
		raw := rest[:in.Region.Size:in.Region.Size]
		rest = rest[in.Region.Size:]
		err := memoryFault(l.regions[in.Region.Name].Read(raw, in.Region.Offset))
		if err == nil {
			l.inputs[in.Name], err = oip.FromBytes(in.Tensor.DType, in.Tensor.Shape, raw, l)
		}
		if err != nil {
			return fmt.Errorf("input %.200q: %w", in.Name, err)
		}
	}
	return nil
}

// Hold takes so many bytes more of those that the server has for bodies, as oip.Holder has it.
func (l *lent) Hold(more int64) error {
	if err := l.server.Hold(more); err != nil {
		return err
	}
	l.held += more
	return nil
}

// sized holds, before anything is read, that a part has the size of its tensor where that is known.
func sized(in *oip.Input) error {
	if in.Region == nil || in.Tensor.DType == tensor.String {
		return nil
	}
	n, err := tensor.ByteCount(in.Tensor.DType, in.Tensor.Shape)
	if err == nil && int64(n) == in.Region.Size {
		return nil
	}
	return fmt.Errorf("%w: input %.200q: %v%v takes %d bytes, and shared_memory_byte_size is %d",
		oip.ErrRequest, in.Name, in.Tensor.DType, in.Tensor.Shape, n, in.Region.Size)
}

// input is the tensor of an input, wherever it was.
func (l *lent) input(in *oip.Input) *tensor.Tensor {
	if in.Region == nil {
		return in.Tensor
	}
	return l.inputs[in.Name]
}

// write puts an output where it is wanted, and returns the part that it takes.
func (l *lent) write(o *oip.Output, t *tensor.Tensor) (*oip.Region, error) {
	raw := t.Data
	if t.DType == tensor.String {
		raw = oip.AppendBytes(nil, t)
	}
	if int64(len(raw)) > o.Region.Size {
		return nil, fmt.Errorf("%w: output %.200q has %d bytes, and shared_memory_byte_size is %d",
			oip.ErrRequest, o.Name, len(raw), o.Region.Size)
	}
	if err := l.regions[o.Region.Name].Write(raw, o.Region.Offset); err != nil {
		return nil, fmt.Errorf("output %.200q: %w", o.Name, memoryFault(err))
	}
	return &oip.Region{Name: o.Region.Name, Offset: o.Region.Offset, Size: int64(len(raw))}, nil
}

// close gives everything back.
func (l *lent) close() {
	if l == nil {
		return
	}
	for _, g := range l.regions {
		g.Close()
	}
	l.server.Release(l.held)
	if l.buffer != nil && cap(*l.buffer) <= keep {
		copies.Put(l.buffer)
	}
}

// errNoMemory is about a server that takes no shared memory.
var errNoMemory = oip.Faultf(oip.Unsupported, "shared memory is off: weir up --shared-memory "+
	"turns it on")

// memoryFault is the fault of an error of package shm.
func memoryFault(err error) error {
	if err == nil {
		return nil
	}
	f := &oip.Fault{Kind: oip.Internal, Text: text(err), Err: err}
	switch {
	case errors.Is(err, shm.ErrUnknown):
		f.Kind = oip.NotFound
	case errors.Is(err, shm.ErrExists):
		f.Kind = oip.Exists
	case errors.Is(err, shm.ErrInvalid):
		f.Kind = oip.Invalid
	case errors.Is(err, shm.ErrUnsupported):
		f.Kind = oip.Unsupported
	}
	return f
}
