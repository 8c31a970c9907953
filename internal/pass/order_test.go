package pass

import "testing"

// TestOrder verifies the table of passes against its constraints, as Go's compiler does with its
// own passes.
func TestOrder(t *testing.T) {
	at := map[string]int{}
	for i, e := range passes {
		if _, twice := at[e.Name]; twice {
			t.Errorf("two passes are named %s", e.Name)
		}
		if i > 0 && e.phase < passes[i-1].phase {
			t.Errorf("pass %s is listed after a later phase", e.Name)
		}
		if e.Doc == "" || e.start == nil {
			t.Errorf("pass %s is incomplete", e.Name)
		}
		at[e.Name] = i
	}
	for _, c := range constraints {
		first, ok1 := at[c.first]
		then, ok2 := at[c.then]
		if !ok1 || !ok2 {
			t.Errorf("constraint %s before %s names no pass", c.first, c.then)
		} else if first >= then {
			t.Errorf("pass %s must run before %s: %s", c.first, c.then, c.why)
		}
	}
	if len(All()) != len(passes) || Names()[0] != passes[0].Name {
		t.Error("All and Names do not list the table")
	}
}
