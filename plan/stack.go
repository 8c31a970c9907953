package plan

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/tensor"
)

// stack puts the slices of a Loop's output together along a new first axis: in place when their
// number was planned, else on the heap until it is known.
type stack struct {
	slice *tensor.Tensor // what each iteration leaves
	out   compute.Result // no tensor: nobody wants it
	parts [][]byte       // each of whole slices
	held  int64
}

// maxPart bounds the slices of a part, and so how many more are reserved than come.
const maxPart = 64

// push takes slice i.
func (s *stack) push(x *compute.Exec, i int) error {
	if s.out.Tensor == nil {
		return nil
	}
	n := len(s.slice.Data)
	if n == 0 {
		return nil
	}
	if s.out.Planned() {
		if (i+1)*n > len(s.out.Data) {
			return fmt.Errorf("%w: slice %d of %v", compute.ErrPlan, i, s.out.Tensor.Shape)
		}
		copy(s.out.Data[i*n:], s.slice.Data)
		return nil
	}
	last := len(s.parts) - 1
	if last < 0 || len(s.parts[last]) == cap(s.parts[last]) {
		size := min(max(i, 1), maxPart) * n
		if s.held+int64(size) > tensor.MaxHeapBytes {
			return fmt.Errorf("%w: a scanned output outgrows %d bytes", tensor.ErrShape,
				int64(tensor.MaxHeapBytes))
		}
		if err := x.Reserve(int64(size)); err != nil {
			return err
		}
		s.held += int64(size)
		s.parts = append(s.parts, make([]byte, 0, size))
		last++
	}
	s.parts[last] = append(s.parts[last], s.slice.Data...)
	return nil
}

// deliver makes count slices the result.
func (s *stack) deliver(x *compute.Exec, count int) error {
	if s.out.Tensor == nil {
		return nil
	}
	if s.out.Planned() {
		if planned := s.out.Tensor.Shape[0]; count != planned {
			return fmt.Errorf("%w: %d slices, planned %d", compute.ErrPlan, count, planned)
		}
		return nil
	}
	if err := s.out.Shape(x, s.slice.DType,
		slices.Concat([]int{count}, s.slice.Shape)); err != nil {
		return err
	}
	at := s.out.Data
	for _, p := range s.parts {
		at = at[copy(at, p):]
	}
	return nil
}

// drop gives the heap back.
func (s *stack) drop(x *compute.Exec) {
	if s.parts != nil {
		x.Release(s.held)
	}
	s.parts, s.held = nil, 0
}
