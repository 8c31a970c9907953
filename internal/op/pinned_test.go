package op

import (
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var rewriteRows = flag.Bool("update", false, "write testdata/rows.txt again from what rows do")

const pinnedFile = "testdata/rows.txt"

// deeds are what a row makes of the calls of [TestEveryRow]. ONNX's own cases say what is right;
// the deeds say that nothing has changed where these do not look or are not to be had: what is
// refused, what a rule knows, and what comes out of odd attributes, empty tensors and the like.
type deeds struct {
	inferred, foreseen int    // calls that the rule allows, and sizes that it tells
	types              uint64 // of what the rule says, symbols and kinds of errors included
	evaluated          int
	sum                float64 // of elements, each squeezed between -1 and 1 and weighted
}

// deedsOf returns the entry of a row, which is its name and the versions that it is for.
func deedsOf(rows map[string]*deeds, o *Op) *deeds {
	name := (&Call{Domain: o.Domain, Type: o.Name}).Name()
	key := fmt.Sprint(name, strings.ReplaceAll(fmt.Sprint(o.Since), " ", ","))
	for rows[key] != nil {
		key += "'"
	}
	rows[key] = &deeds{}
	return rows[key]
}

// kindOf is the sentinel of an error.
func kindOf(err error) string {
	for _, kind := range []error{ErrAttr, ErrInput, ErrUnsupported} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return "another"
}

// infer adds what a rule says.
func (d *deeds) infer(c *Infer, err error) {
	h := fnv.New64a()
	if err != nil {
		fmt.Fprint(h, kindOf(err))
		d.types = d.types*31 + h.Sum64()
		return
	}
	d.inferred++
	for _, out := range c.Out {
		fmt.Fprint(h, out, ";", out.Elems, ";")
		for _, dim := range out.Shape {
			if _, ok := dim.Int(); ok {
				d.foreseen++
			}
		}
	}
	d.types = d.types*31 + h.Sum64()
}

// eval adds what an evaluation gives; of random numbers, only that it gives any.
func (d *deeds) eval(o *Op, e *Eval, err error) {
	if err != nil {
		d.sum += float64(len(kindOf(err))) / 64
		return
	}
	d.evaluated++
	if o.Has(Impure) || o.Draws != nil && o.Draws(e.Call) {
		return
	}
	for i, out := range e.Out {
		if out == nil {
			continue
		}
		values, err := out.Floats()
		if err != nil {
			d.sum += float64(out.Len()) / 16
			continue
		}
		for k, v := range values {
			squeezed := v / (1 + math.Abs(v))
			switch {
			case math.IsNaN(v):
				squeezed = 0.5
			case math.IsInf(v, 0):
				squeezed = math.Copysign(1, v)
			}
			d.sum += squeezed * (1 + float64((k+5*i)%7)/8)
		}
	}
}

func (d *deeds) String() string {
	return fmt.Sprintf("inferred %d, foreseen %d, types %016x, evaluated %d", d.inferred,
		d.foreseen, d.types, d.evaluated)
}

// pinned compares deeds with those of the file, or writes it. Sums are compared where the file was
// made: elsewhere math's functions may differ in their last bit, and a step of a rounding with it.
func pinned(t *testing.T, rows map[string]*deeds) {
	t.Helper()
	if *rewriteRows {
		var text strings.Builder
		for _, key := range slices.Sorted(maps.Keys(rows)) {
			fmt.Fprintf(&text, "%s: %v, sum %.6g\n", key, rows[key], rows[key].sum)
		}
		if err := os.WriteFile(pinnedFile, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(pinnedFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		key, was, _ := strings.Cut(strings.TrimSpace(line), ": ")
		was, number, _ := strings.Cut(was, ", sum ")
		var sum float64
		if _, err := fmt.Sscan(number, &sum); err != nil {
			t.Fatalf("%s: %q: %v", pinnedFile, line, err)
		}
		d := rows[key]
		delete(rows, key)
		switch {
		case d == nil:
			t.Errorf("%s: no such row", key)
		case d.String() != was:
			t.Errorf("%s: %v, was %s; if it is meant, run this test with -update", key, d, was)
		case runtime.GOARCH == "amd64" && math.Abs(d.sum-sum) > 1e-5*math.Abs(sum)+1e-4:
			t.Errorf("%s: results add up to %.6g, were %.6g; if it is meant, run this test with "+
				"-update", key, d.sum, sum)
		}
	}
	for key := range rows {
		t.Errorf("%s: not in %s; run this test with -update", key, pinnedFile)
	}
}
