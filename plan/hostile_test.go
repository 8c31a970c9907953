package plan

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// TestAbsurdSizesCostNothing holds that a plan which no device can hold is made at once, or
// refused, without tables in proportion to its values: what admission compares with its limits
// comes from the plan.
func TestAbsurdSizesCostNothing(t *testing.T) {
	for _, e := range []struct{ name, body string }{
		{"Expand", `input %x: float32[1]
			const %s: int64[1] = {1152921504606846976}
			%y = Expand@17 (%x, %s)
			output %y`},
		{"Pad", `input %x: float32[4]
			const %p: int64[2] = {1000000000000000000, 0}
			%y = Pad@17 (%x, %p)
			output %y`},
		{"Resize", `input %x: float32[1,1,4,4]
			const %s: int64[4] = {1, 1, 1073741824, 1073741824}
			%y = Resize@17 (%x, _, _, %s) {mode="linear"}
			output %y`},
		{"Resize of one long axis", `input %x: float32[1,1,1,4]
			const %s: int64[4] = {1, 1, 1, 1073741824}
			%y = Resize@17 (%x, _, _, %s) {mode="linear"}
			output %y`},
		{"more bytes than can be counted", `input %x: float32[1152921504606846976,4]
			%y = Neg@17 (%x)
			output %y`},
		{"sum of sizes", `input %x: float32[1]
			const %s: int64[1] = {1152921504606846976}
			%a = Expand@17 (%x, %s)
			%b = Neg@17 (%a)
			%c = Abs@17 (%b)
			output %a
			output %b
			output %c`},
	} {
		t.Run(e.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p, err := Compile(context.Background(), parse(t, e.body), Options{Target: host,
				Threads: 2})
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
				t.Errorf("compiling allocated %d MiB", n>>20)
			}
			if err == nil && p.PeakBytes(1) < 1<<32 {
				t.Errorf("peak of %d bytes", p.PeakBytes(1))
			}
			if err != nil && !errors.Is(err, tensor.ErrShape) {
				t.Error(err)
			}
		})
	}
}

// TestViewsCountOnce holds that other names of the same bytes are no more memory, near the most
// bytes that can be counted.
func TestViewsCountOnce(t *testing.T) {
	p := compileAs(t, parse(t, `input %x: float32[576460752303423488]
		const %s: int64[2] = {2, -1}
		const %r: int64[2] = {4, -1}
		%a: float32[2,288230376151711744] = Reshape@17 (%x, %s)
		%b: float32[4,144115188075855872] = Reshape@17 (%a, %r)
		output %b`), unoptimised)
	if p.ArenaBytes != 4<<59 {
		t.Errorf("arena of %d bytes", p.ArenaBytes)
	}
}
