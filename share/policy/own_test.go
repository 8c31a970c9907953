package policy

import (
	"errors"
	"testing"

	"github.com/weirgpu/weir/share"
)

// named is a policy that does nothing.
type named string

func (n named) Name() string                            { return string(n) }
func (named) Decide(*share.Snapshot) (d share.Decision) { return d }

// TestRegister: a policy of the program's own is found by its name, with what it needs, and one
// whose name could not be told from another's, or that is none, is refused.
func TestRegister(t *testing.T) {
	before := registered()
	t.Cleanup(func() { added.rows = before })
	made := func(name string) func() share.Policy {
		return func() share.Policy { return named(name) }
	}
	needs := share.Can{Overlap: true}
	if err := Register(Own{Name: "mine", Needs: needs, New: made("mine")}); err != nil {
		t.Fatal(err)
	}
	if err := Register(Own{Name: "other", New: made("mine")}); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Own{{Name: "fair", New: made("fair")}, {Name: "mine", New: made("mine")},
		{Name: "all", New: made("all")}, {Name: "a:b", New: made("a:b")}, {New: made("")},
		{Name: "none"}} {
		if err := Register(o); !errors.Is(err, ErrRegister) {
			t.Errorf("registered %q: %v", o.Name, err)
		}
	}
	p, err := New("mine")
	if err != nil || p != named("mine") {
		t.Errorf("mine is %v, %v", p, err)
	}
	if got, err := (Spec{Name: "mine"}).Needs(); got != needs || err != nil {
		t.Errorf("mine needs %v, %v", got, err)
	}
	if _, err := New("other"); !errors.Is(err, ErrRegister) {
		t.Errorf("a policy under the name of another: %v", err)
	}
	if _, err := New("mine:x=1"); !errors.Is(err, ErrParam) {
		t.Errorf("a parameter of a policy without any: %v", err)
	}
	if n := len(All()); n != len(builtIn())+len(before)+2 {
		t.Errorf("%d policies in all", n)
	}
}
