package claims

import (
	"io"
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	var b Book
	for _, v := range []float64{3, 1, 2} {
		b.Check("least", v, 2, false)
		b.Check("most", v, 1.5, true)
	}
	var out strings.Builder
	if b.Judge(&out) {
		t.Error("a median of 2 is above 1.5, and all is said to have held")
	}
	if len(b) != 2 || !b[0].Held || b[1].Held || b[0].Median != 2 {
		t.Errorf("got %+v", b)
	}
	if !strings.Contains(out.String(), "MISSED  most: 2.000 (at most 1.5") {
		t.Errorf("got %q", out.String())
	}
	if b = b[:1]; !b.Judge(io.Discard) {
		t.Error("a claim that held is said to have been missed")
	}
}
