package shim

import (
	"encoding/json"
	"testing"
	"time"
)

// TestEventsAreGivenBack makes and destroys streams, and lets go of the primary context, again and
// again: the events that were put on the streams go with them.
func TestEventsAreGivenBack(t *testing.T) {
	t.Parallel()
	compiled(t)
	w := newWarden(t, 1<<30, 300*time.Microsecond)
	w.gate(true)
	var cost struct{ Destroyed, Released int64 }
	out := onFake(t, w, t.TempDir(), "streams", "200").run(t)
	if err := json.Unmarshal([]byte(out), &cost); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	t.Logf("%+v bytes (fake)", cost)
	if most := int64(4 << 10); cost.Destroyed > most || cost.Released > most {
		t.Errorf("%+v bytes are left of 200 streams each", cost)
	}
}
