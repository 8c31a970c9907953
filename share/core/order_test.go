package core_test

import (
	"testing"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// TestOrder: whom policies that let iterations finish choose of two: the one admitted first of
// those that came at once, and one amid its iteration before another with less to do.
func TestOrder(t *testing.T) {
	for _, spec := range []string{"fifo", "srtf", "pack:jobs=1"} {
		d := under(t, spec)
		a, b := d.admit("a", share.Share{}), d.admit("b", share.Share{})
		c := d.admit("c", share.Share{})
		d.do(c, core.Want)
		d.do(b, core.Want)
		d.do(a, core.Want)
		if d.do(c, core.Release); !d.c.Holds(a) {
			t.Errorf("%s: of two that came at once, the one admitted later goes first", spec)
		}
		d.do(a, core.Begin)
		d.now += ms
		d.do(a, core.Finish)
		d.do(a, core.Begin)
		if d.do(a, core.Return); !d.c.Holds(a) {
			t.Errorf("%s: one amid its iteration has to wait for another", spec)
		}
	}
}

// TestPackFits: pack starts no iteration beside others whose units are not there, to one unit.
func TestPackFits(t *testing.T) {
	d := under(t, "pack")
	for i, want := range []bool{true, true, false} {
		id := d.admit(string(rune('a'+i)), share.Share{})
		d.expect(id, share.Forecast{Units: 2 - i/2})
		if d.do(id, core.Want); d.c.Holds(id) != want {
			t.Errorf("the %d. job holds units: %v, want %v", i+1, !want, want)
		}
	}
}
