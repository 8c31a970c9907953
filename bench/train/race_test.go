package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

func TestTurns(t *testing.T) {
	var order []string
	of := func(name string, ms ...float64) racer {
		return racer{name, func(_ context.Context, n int) ([]float64, error) {
			order = append(order, name)
			return ms[:n], nil
		}}
	}
	took, err := turns(t.Context(),
		[]racer{of("a", 9, 3, 1, 2), of("b", 9, 5, 5, 9), of("c", 9, 7, 7, 7)}, 4, 3, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, ""); got != "abcbcacababc" {
		t.Errorf("the order is %q", got)
	}
	if !slices.Equal(took["a"], []float64{2, 2, 2, 2}) || took["b"][0] != 5 || len(took) != 3 {
		t.Errorf("they took %v", took)
	}
	fails := racer{"d", func(context.Context, int) ([]float64, error) { return nil, io.EOF }}
	if _, err = turns(t.Context(), []racer{fails}, 1, 1, io.Discard); err == nil ||
		!strings.Contains(err.Error(), "d: ") {
		t.Errorf("the error is %v", err)
	}
}

func TestJudged(t *testing.T) {
	r := judged("m", map[string][]float64{weirs: {2, 4, 3}, "slow": {1, 9, 8}, "fast": {4, 2, 4}})
	// "slow" is faster in one round alone
	if r.Fastest != "fast" || r.MS["slow"] != 8 || !slices.Equal(r.Over, []float64{0.5, 2, 0.75}) {
		t.Errorf("judged as %+v", r)
	}
	r = judged("m", map[string][]float64{weirs: {1}, "b": {2}, "a": {2}})
	if r.Fastest != "a" {
		t.Errorf("of two that are as fast %q is taken", r.Fastest)
	}
	if r = judged("m", map[string][]float64{weirs: {1}}); r.Fastest != "" || r.Over != nil {
		t.Errorf("without a rival judged as %+v", r)
	}
}

func TestMean(t *testing.T) {
	races := []race{{Model: "a", Over: []float64{9, 0.5, 0.4}}, {Model: "b", Over: []float64{2}},
		{Model: "c", Over: []float64{100}}, {Model: "d"}}
	if m, whole := mean(races, []string{"a", "b"}); !whole || math.Abs(m-1) > 1e-15 {
		t.Errorf("the mean is %v, %v", m, whole)
	}
	for _, missing := range []string{"d", "e"} {
		if _, whole := mean(races, []string{"a", missing}); whole {
			t.Errorf("a mean without %q", missing)
		}
	}
}

func TestFalling(t *testing.T) {
	if err := falling([]float64{2, 1, 1.5, 1.2}); err != nil {
		t.Error(err)
	}
	for _, losses := range [][]float64{{1, 2, 2, 1}, {2, 1, math.NaN(), 1}, nil} {
		if falling(losses) == nil {
			t.Errorf("%v is said to fall", losses)
		}
	}
}

// TestBegin begins a model by processes that answer in different ways: those that do not train it
// are named, and the others stand still while nothing is asked of them.
func TestBegin(t *testing.T) {
	dir, some := t.TempDir(), []rival{}
	for name, answer := range map[string]string{
		"learns": `{"version": "7", "losses": [2.0001, 1], "ms": [5]}`,
		"cannot": `{"error": "no gradient of Foo"}`,
		"stays":  `{"losses": [2, 2]}`,
		"other":  `{"losses": [3, 1]}`,
		"silent": `{}`,
		"ends":   "",
	} {
		script := filepath.Join(dir, name)
		text := fmt.Sprintf("while read line; do echo '%s'; done\n", answer)
		if answer == "" {
			text = "exit 3\n"
		}
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		some = append(some, rival{name: name, wheels: "torch", script: script})
	}
	b := &bench{python: "sh"}
	b.Versions = map[string]string{}
	able, without, err := b.begin(t.Context(), some, request{}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(able) != 1 || able[0].name != "learns" || b.Versions["learns"] != "7" {
		t.Fatalf("able are %v, of versions %v", able, b.Versions)
	}
	for name, want := range map[string]string{"cannot": "no gradient of Foo",
		"stays": "does not learn", "other": "3.00000, weir's 2.00000", "silent": "no losses",
		"ends": ""} { // when it ends is by chance
		if got := without[name]; got == "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	p := able[0].peer
	for range 2 {
		stopped(t, p)
		if ms, err := p.time(t.Context(), 1); err != nil || !slices.Equal(ms, []float64{5}) {
			t.Fatalf("it took %v: %v", ms, err)
		}
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// stopped waits until a process stands still.
func stopped(t *testing.T, p *peer) {
	t.Helper()
	var s syscall.WaitStatus
	_, err := syscall.Wait4(p.command.Process.Pid, &s, syscall.WUNTRACED, nil)
	if err != nil || !s.Stopped() {
		t.Fatalf("the process is not stopped: %v, status %#x", err, s)
	}
}

// TestWrite reads what ONNX Runtime would: the model with the weights of now.
func TestWrite(t *testing.T) {
	t.Chdir("../..")
	of, err := read()
	if err != nil {
		t.Fatal(err)
	}
	on, err := machine.Open("cpu:0", machine.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer on.Close()
	for i := range subjects {
		s := &subjects[i]
		m, err := open(t.Context(), on, s, common, of)
		if err != nil {
			t.Fatal(err)
		}
		defer m.close()
		if _, err := m.some(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "m.onnx")
		if err := m.write(s, file); err != nil {
			t.Fatal(err)
		}
		f, err := onnx.Open(file, onnx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		missing := m.weights()
		for _, v := range f.Graph.Constants() {
			w, trained := missing[v.Name]
			if trained && slices.Equal(w.Data, tensor.As[float32](v.Const())) {
				delete(missing, v.Name)
			}
		}
		if len(missing) > 0 {
			t.Errorf("%s: %d weights are not as they are now", s.name, len(missing))
		}
	}
}
