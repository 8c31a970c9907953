package weir_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/tensor"
)

// gather adds a row to a sequence and joins all rows; a bias is optional; votes pass through.
const gather = `graph "gather" {
  opset "" 21
  input %rows: sequence(float32[N,2])
  input %bias: optional(float32[2])
  input %votes: sequence(map(string, float32[]))
  input %last: float32[1,2]
  %all = SequenceInsert@11 "append" (%rows, %last)
  %joined = ConcatFromSequence@11 "join" (%all) {axis=0}
  %has: bool[] = OptionalHasElement@18 "has" (%bias)
  %y = If@21 "shift" (%has | %bias, %joined) {then_branch=graph "then" captures 2 {
    input %b: optional(float32[2])
    input %j: float32[...]
    %v = OptionalGetElement@18 "get" (%b)
    %s = Add@14 "add" (%j, %v)
    output %s
  }, else_branch=graph "else" captures 2 {
    input %b: optional(float32[2])
    input %j: float32[...]
    output %j
  }}
  output %all
  output %y
  output %votes
}`

func TestContainers(t *testing.T) {
	m := load(t, gather)
	if in := m.Inputs(); in[0].Type.String() != "sequence(float32[N,2])" ||
		in[0].Type.Elem.Shape[1].Size != 2 || in[2].Type.DType != tensor.Sequence {
		t.Errorf("inputs are %v", in)
	}
	votes := map[string]float32{"cat": 0.75, "dog": 0.25}
	one, last := tensor.From([]float32{1, 2, 3, 4}, 2, 2), tensor.From([]float32{5, 6}, 1, 2)
	run := func(bias *weir.Tensor, rows ...*weir.Tensor) weir.Result {
		t.Helper()
		r, err := m.Run(
			context.Background(),
			weir.Inputs{
				"rows":  weir.NewSequence(rows...),
				"bias":  weir.NewOptional(bias),
				"votes": weir.NewSequence(weir.NewMap(votes), weir.NewMap(map[string]float32{})),
				"last":  last,
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b := run(nil, one, last), run(tensor.From([]float32{10, 20}, 2))
	defer a.Close()
	defer b.Close()
	clear(one.Data) // inputs are copied
	for want, y := range map[string]*weir.Tensor{"[1 2 3 4 5 6 5 6]": a.Output("y"),
		"[15 26]": b.Output("y")} {
		if d, err := weir.Data[float32](y); err != nil || fmt.Sprint(d) != want {
			t.Errorf("y is %v, %v; want %s", d, err, want)
		}
	}
	all, err := weir.Items(a.Output("all"))
	if err != nil || len(all) != 3 || all[0].String() != "float32[2 2]{1, 2, 3, 4}" {
		t.Errorf("all is %v, %v", all, err)
	}
	pairs, err := weir.Items(b.Output("votes"))
	if err != nil || len(pairs) != 2 {
		t.Fatalf("votes are %v, %v", pairs, err)
	}
	if got, err := weir.Map[string, float32](pairs[0]); err != nil || !maps.Equal(got, votes) {
		t.Errorf("votes are %v, %v", got, err)
	}
	if got, err := weir.Map[string, float32](pairs[1]); err != nil || len(got) != 0 {
		t.Errorf("no votes are %v, %v", got, err)
	}
}

func TestContainersRefused(t *testing.T) {
	m := load(t, gather)
	x, none := tensor.From([]float32{1, 2}, 1, 2), weir.NewSequence()
	good := weir.Inputs{"rows": none, "bias": weir.NewOptional(nil), "votes": none, "last": x}
	for name, change := range map[string]weir.Inputs{
		"a tensor":        {"rows": x},
		"wrong elements":  {"rows": weir.NewSequence(tensor.From([]int64{1, 2}, 1, 2))},
		"mixed elements":  {"rows": weir.NewSequence(x, tensor.From([]int64{1, 2}, 1, 2))},
		"nil element":     {"rows": weir.NewSequence(nil)},
		"a value":         {"bias": x},
		"wrong keys":      {"votes": weir.NewSequence(weir.NewMap(map[int64]float32{1: 2}))},
		"wrong values":    {"votes": weir.NewSequence(weir.NewMap(map[string]float64{"a": 2}))},
		"broken sequence": {"rows": {DType: tensor.Sequence, Shape: []int{2}}},
		"broken map":      {"votes": weir.NewSequence(&weir.Tensor{DType: tensor.Map})},
	} {
		in := maps.Clone(good)
		maps.Copy(in, change)
		if _, err := m.Run(context.Background(), in); !errors.Is(err, weir.ErrInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r, err := m.Run(context.Background(), good); err != nil {
		t.Error(err)
	} else {
		r.Close()
	}
	ids := weir.NewMap(map[int64]float32{3: 1, 2: 4})
	if got, err := weir.Map[int64, float32](ids); err != nil ||
		!maps.Equal(got, map[int64]float32{3: 1, 2: 4}) {
		t.Errorf("%v, %v", got, err)
	}
	_, keys := weir.Map[string, float32](ids)
	_, values := weir.Map[int64, float64](ids)
	_, noMap := weir.Map[int64, float32](x)
	_, none1 := weir.Map[int64, float32](nil)
	_, none2 := weir.Items(nil)
	_, noSequence := weir.Items(ids)
	for i, err := range []error{keys, values, noMap, none1, none2, noSequence} {
		if !errors.Is(err, weir.ErrOutput) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func ExampleMap() {
	// What a classifier exported from scikit-learn gives: for each row, the probability of each
	// class.
	row := weir.NewMap(map[int64]float32{0: 0.25, 1: 0.75})
	probability, err := weir.Map[int64, float32](row)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(probability[1])
	// Output: 0.75
}
