package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/tensor"
)

func ones(shape ...int) *tensor.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return tensor.From(slices.Repeat([]float32{1}, n), shape...)
}

// profiled runs a plan once and returns what each operator's steps cost together.
func profiled(t *testing.T, body string, in ...*tensor.Tensor) (p *Plan, costs map[string]Cost) {
	t.Helper()
	p = compileAs(t, parse(t, body), Options{Target: host})
	prog, _ := bindTo(t, p)
	set(prog, in)
	costs = map[string]Cost{}
	err := prog.Profile(exec(newPool(t)), func(s *Step, c Cost) {
		sum := costs[s.Node.Type]
		costs[s.Node.Type] = Cost{sum.Flops + c.Flops, sum.Bytes + c.Bytes}
	})
	if err != nil {
		t.Fatal(err)
	}
	return p, costs
}

// TestCosts counts by hand.
func TestCosts(t *testing.T) {
	for _, tc := range []struct {
		name, op, body string
		in             []*tensor.Tensor
		want           Cost
	}{
		{"elementwise", "Exp", "input %x: float32[8,4]\n%y = Exp@17 (%x)\noutput %y",
			[]*tensor.Tensor{ones(8, 4)}, Cost{32, 256}},
		{"look-up reads what it looks up", "Gather",
			"input %x: float32[1000,16]\ninput %i: int64[4]\n%y = Gather@17 (%x, %i)\noutput %y",
			[]*tensor.Tensor{ones(1000, 16), tensor.From([]int64{1, 2, 3, 4}, 4)},
			Cost{64, 256 + 32 + 256}},
		{"product of packed weights", "MatMul",
			"input %x: float32[8,32]\nconst %w: float32[32,32] = {" +
				strings.TrimSuffix(strings.Repeat("1, ", 32*32), ", ") +
				"}\n%y = MatMul@17 (%x, %w)\noutput %y",
			[]*tensor.Tensor{ones(8, 32)}, Cost{2 * 8 * 32 * 32, 4 * (8*32 + 32*32 + 8*32)}},
		{"shape that depends on data", "NonZero",
			"input %x: float32[4,6]\n%y = NonZero@17 (%x)\noutput %y",
			[]*tensor.Tensor{ones(4, 6)}, Cost{48, 96 + 8*48}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, costs := profiled(t, tc.body, tc.in...)
			if got := costs[tc.op]; got != tc.want {
				t.Errorf("%s costs %+v, want %+v", tc.op, got, tc.want)
			}
		})
	}
}

// TestCostOfBranch holds that the steps of the branch taken count, and the If itself no more than
// its outputs.
func TestCostOfBranch(t *testing.T) {
	_, costs := profiled(t, `input %x: float32[2,8]
		input %c: bool[]
		%y: float32[2,8] = If@17 (%c | %x) {then_branch=graph "then" captures 1 {
			input %x
			%y = Exp@17 (%x)
			output %y
		}, else_branch=graph "else" captures 1 {
			input %x
			%y = Sqrt@17 (%x)
			output %y
		}}
		output %y`, ones(2, 8), tensor.From([]bool{true}))
	if costs["Exp"] != (Cost{16, 128}) || costs["Sqrt"] != (Cost{}) || costs["If"].Flops != 0 {
		t.Errorf("got %+v", costs)
	}
}

// TestCostUnknownBeforeRun holds that what depends on data is not in the plan's sum and does not
// upset it.
func TestCostUnknownBeforeRun(t *testing.T) {
	p, costs := profiled(t, `input %x: float32[4,6]
		%i = NonZero@17 (%x)
		%t = Transpose@17 (%i) {perm=[1, 0]}
		%y = GatherND@17 (%x, %t)
		output %y`, ones(4, 6))
	if p.Flops != 0 {
		t.Errorf("the plan counts %d operations", p.Flops)
	}
	for _, op := range []string{"NonZero", "Transpose", "GatherND"} {
		if costs[op].Bytes == 0 {
			t.Errorf("%s costs %+v", op, costs[op])
		}
	}
}

// TestEstimate counts by hand: Exp has 32 operations and 256 bytes, and MatMul 512 operations and
// 512 bytes.
func TestEstimate(t *testing.T) {
	p := compileAs(t, parse(t, "input %x: float32[8,4]\ninput %w: float32[4,8]\n"+
		"%y = Exp@17 (%x)\n%z = MatMul@17 (%y, %w)\noutput %z"), Options{Target: host})
	for _, tc := range []struct {
		flops, bytes, seconds, memory float64
	}{
		{1, 1e12, 32 + 512, 0},
		{1e12, 1, 256 + 512, 1},
		{1, 1, 256 + 512, 1},
		{1, 4, 64 + 512, (64 + 128) / 576.},
	} {
		got, memory := p.Estimate(tc.flops, tc.bytes)
		if math.Abs(got.Seconds()-tc.seconds) > 1e-6*tc.seconds ||
			math.Abs(memory-tc.memory) > 1e-6 {
			t.Errorf("at %g operations and %g bytes a second: %v, memory busy for %g, want %g s "+
				"and %g", tc.flops, tc.bytes, got, memory, tc.seconds, tc.memory)
		}
	}
}

// TestWidth: what is large fills all units, what is made of small steps one, and what lies between
// as many as pay for handing out.
func TestWidth(t *testing.T) {
	for _, tc := range []struct {
		n     int // of an n by n product, at 1 GFLOP/s
		width float64
	}{
		{10, 1},                   // 2 us
		{25, 31.25 / 11.953125},   // 31 us, or 2 us and the handing out
		{400, 128000. / (8010.0)}, // 128 ms
	} {
		p := compileAs(t, parse(t, fmt.Sprintf("input %%x: float32[%[1]d,%[1]d]\n"+
			"input %%w: float32[%[1]d,%[1]d]\n%%y = MatMul@17 (%%x, %%w)\noutput %%y", tc.n)),
			Options{Target: host})
		got := p.Width(16, 1e9, 1e12, 10*time.Microsecond)
		if math.Abs(got-tc.width) > 1e-9*tc.width {
			t.Errorf("%d by %d: %v units, want %v", tc.n, tc.n, got, tc.width)
		}
	}
}
