package weir_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/tensor"
)

// positions looks tokens up, and adds to each the row of its position, of which there are four.
const positions = `graph "positions" {
  opset "" 17
  input %tokens: int64[n]
  const %words: float32[3,2] = {1, 2, 3, 4, 5, 6}
  const %places: float32[4,2] = {10, 10, 20, 20, 30, 30, 40, 40}
  const %zero: int64[1] = {0}
  %shape = Shape@15 (%tokens)
  %w = Gather@13 "word" (%words, %tokens) {axis=0}
  %p = Slice@13 "place" (%places, %zero, %shape, %zero)
  %y = Add@14 "sum" (%w, %p)
  output %y
}`

// TestKindsOfErrors holds that what a request has caused is told from what it has not.
func TestKindsOfErrors(t *testing.T) {
	m := load(t, positions)
	run := func(m *weir.Model, tokens ...int64) error {
		r, err := m.Run(t.Context(), weir.Inputs{"tokens": tensor.From(tokens, len(tokens))})
		r.Close()
		return err
	}
	for range 2 { // of the first shapes, and of later ones
		for what, tokens := range map[string][]int64{
			"more tokens than positions": {0, 1, 2, 0, 1},
			"a token out of range":       {0, 3},
			"a negative token":           {-4},
		} {
			if err := run(m, tokens...); !errors.Is(err, weir.ErrInput) ||
				errors.Is(err, weir.ErrModel) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := run(m, 0, 1, 2); err != nil {
			t.Errorf("a good request: %v", err)
		}
	}
	for what, c := range map[string]struct {
		model string
		kind  error
	}{
		"refuses whatever it is given": {strings.Replace(positions, "(%words, %tokens)",
			"(%words, %far)", 1), weir.ErrModel},
		"refuses the one shape there is": {strings.NewReplacer("[n]", "[5]").Replace(positions),
			weir.ErrModel},
	} {
		text := strings.Replace(c.model, "const %zero",
			"const %far: int64[1] = {7}\n  const %zero", 1)
		m, err := weir.Open(modelFile(t, text))
		if err == nil {
			err = run(m, 0, 0, 0, 0, 0)
			m.Close()
		}
		if !errors.Is(err, c.kind) || errors.Is(err, weir.ErrInput) {
			t.Errorf("a model that %s: %v", what, err)
		}
	}
}

// TestKindsOfOpening holds what Open and Load say of files that are no good.
func TestKindsOfOpening(t *testing.T) {
	dir := t.TempDir()
	unknown := filepath.Join(dir, "unknown.onnx")
	good, err := os.ReadFile(modelFile(t, scaled))
	if err != nil {
		t.Fatal(err)
	}
	// another name of as many letters
	if err := os.WriteFile(unknown, []byte(strings.Replace(string(good), "Add", "Adx", 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	_, garbage := weir.Load([]byte("this is no model"))
	_, missing := weir.Open(filepath.Join(dir, "none"))
	_, operator := weir.Open(unknown)
	for what, c := range map[string]struct{ err, kind error }{
		"garbage":             {garbage, weir.ErrModel},
		"no file":             {missing, os.ErrNotExist},
		"an unknown operator": {operator, weir.ErrUnsupported},
	} {
		if !errors.Is(c.err, c.kind) {
			t.Errorf("%s: %v", what, c.err)
		}
	}
}

// TestOptionsRefused holds that an option that makes no sense is an error.
func TestOptionsRefused(t *testing.T) {
	path := modelFile(t, scaled)
	for what, opts := range map[string][]weir.Option{
		"WithThreads(-1)":        {weir.WithThreads(-1)},
		"WithThreads(1025)":      {weir.WithThreads(weir.MaxThreads + 1)},
		"WithMaxShapes(-3)":      {weir.WithMaxShapes(-3), weir.WithThreads(1)},
		"WithMaxConcurrency(-2)": {weir.WithMaxConcurrency(-2)},
		"option 2 of 2":          {weir.WithThreads(1), nil},
	} {
		if m, err := weir.Open(path, opts...); !errors.Is(err, weir.ErrOption) ||
			!strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v, %v", what, m, err)
		}
	}
	if _, err := weir.Load(nil, weir.WithCopy()); !errors.Is(err, weir.ErrOption) {
		t.Errorf("WithCopy of what is in memory: %v", err)
	}
	if _, err := weir.OpenFS(nil, "model.onnx"); !errors.Is(err, weir.ErrOption) {
		t.Errorf("OpenFS without a file system: %v", err)
	}
	m := load(t, scaled, weir.WithThreads(0), weir.WithMaxShapes(0), weir.WithMaxConcurrency(0))
	if len(m.Inputs()) != 2 {
		t.Error("0 is not the default")
	}
}

// TestErrorsSayWhich holds that an error names what is wrong, and what would be right.
func TestErrorsSayWhich(t *testing.T) {
	m := load(t, scaled)
	x, bias := tensor.From(make([]float32, 4), 1, 4), tensor.From(make([]float32, 1), 1, 1)
	r, err := m.Run(t.Context(), weir.Inputs{"x": x, "bias": bias})
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("the user went away")
	stopped, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	run := func(ctx context.Context, in weir.Inputs) error {
		_, err := m.Run(ctx, in)
		return err
	}
	_, noOutput := weir.Output[float32](r, "zz")
	_, otherType := weir.Output[int64](r, "z")
	r.Close()
	_, closed := weir.Output[float32](r, "z")
	_, count := weir.NewTensor(make([]float32, 5), 2, 3)
	_, texts := weir.NewTensor([]string{"a"}, 2)
	var none context.Context
	good := weir.Inputs{"x": x, "bias": bias}
	two := weir.Inputs{"x": tensor.From(make([]float32, 8), 2, 4), "bias": bias}
	for what, c := range map[string]struct {
		err, kind error
		says      []string
	}{
		"misspelt input": {run(t.Context(), weir.Inputs{"X": x, "bias": bias}), weir.ErrInput,
			[]string{`"x"`, `"X"`, "x, bias"}},
		"cause":            {run(stopped, good), why, nil},
		"cancelled":        {run(stopped, good), context.Canceled, nil},
		"new shapes":       {run(stopped, two), why, nil},
		"nil context":      {run(none, good), weir.ErrInput, []string{"context is nil"}},
		"unknown output":   {noOutput, weir.ErrOutput, []string{`"zz"`, "gives z"}},
		"another type":     {otherType, weir.ErrOutput, []string{`"z"`, "float32", "int64"}},
		"closed result":    {closed, weir.ErrOutput, []string{"closed"}},
		"count":            {count, weir.ErrInput, []string{"6", "5"}},
		"count of strings": {texts, weir.ErrInput, []string{"2", "1"}},
	} {
		if !errors.Is(c.err, c.kind) || strings.Contains(c.err.Error(), "goroutine") ||
			slices.ContainsFunc(c.says, func(s string) bool {
				return !strings.Contains(c.err.Error(), s)
			}) {
			t.Errorf("%s: %v", what, c.err)
		}
	}
}

// TestStrings holds that strings are elements like others.
func TestStrings(t *testing.T) {
	m := load(t, `graph "texts" {
  opset "" 17
  input %x: string[N]
  %y = Identity@16 (%x)
  output %y
}`)
	x, err := weir.NewTensor([]string{"a", "b"}, 2)
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Run(t.Context(), weir.Inputs{"x": x})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if y, err := weir.Output[string](r, "y"); err != nil || !slices.Equal(y, []string{"a", "b"}) {
		t.Errorf("%v, %v", y, err)
	}
	if _, err := weir.Output[string](r, "x"); !errors.Is(err, weir.ErrOutput) {
		t.Errorf("an input: %v", err)
	}
}

// TestFileWritten writes a model's file in place once the model has run on the same shapes. Steps
// that read it then give an error, those of which all is packed go on, and so does a copy.
func TestFileWritten(t *testing.T) {
	product := `graph "product" {
  opset "" 17
  input %tokens: int64[n]
  const %w: float32[2,4] = {1, 2, 3, 4, 5, 6, 7, 8}
  %c = Cast@13 (%tokens) {to=1}
  %y = MatMul@13 (%c, %w)
  output %y
}`
	for what, c := range map[string]struct {
		text string
		opts []weir.Option
		kind error // of a Run after the change
	}{
		"read in place": {positions, nil, weir.ErrModel},
		"packed":        {product, nil, nil},
		"copied":        {positions, []weir.Option{weir.WithCopy()}, nil},
	} {
		path := modelFile(t, c.text)
		m, err := weir.Open(path, c.opts...)
		if err != nil {
			t.Fatal(err)
		}
		run := func(tokens ...int64) ([]float32, error) {
			r, err := m.Run(t.Context(), weir.Inputs{"tokens": tensor.From(tokens, len(tokens))})
			if err != nil {
				return nil, err
			}
			defer r.Close()
			y, err := weir.Output[float32](r, "y")
			return slices.Clone(y), err
		}
		want, err := run(0, 1)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		clear(b)
		later := time.Now().Add(time.Minute)
		if err := errors.Join(os.WriteFile(path, b, 0o600),
			os.Chtimes(path, later, later)); err != nil {
			t.Fatal(err)
		}
		got, err := run(0, 1)
		if !errors.Is(err, c.kind) || c.kind == nil && !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v, %v", what, got, err, want, c.kind)
		}
		// new shapes are made of what the file says
		if _, err := run(0, 1, 2); errors.Is(err, weir.ErrModel) != (c.opts == nil) {
			t.Errorf("%s, other shapes: %v", what, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
