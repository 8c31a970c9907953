package device

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
)

func TestOpenGate(t *testing.T) {
	if Open.Revoked() {
		t.Error("revoked")
	}
	if err := Open.Renew(t.Context()); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Open.Renew(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Renew with a cancelled context: %v", err)
	}
}

// TestInfoJSON holds the field names that readers of the device list rely on.
func TestInfoJSON(t *testing.T) {
	got, err := json.Marshal(Info{
		ID:          "cpu:0",
		Kind:        CPU,
		Name:        "Example 9000",
		MemoryBytes: 1 << 30,
		Units:       2,
		CPUs:        []int{0, 1},
		NUMA:        []NUMANode{{ID: 0, CPUs: []int{0, 1}, MemoryBytes: 1 << 30}},
		Features:    []string{"avx2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"id":"cpu:0","kind":"cpu","name":"Example 9000","memory_bytes":1073741824,"units":2,` +
		`"cpus":[0,1],"numa_nodes":[{"id":0,"cpus":[0,1],"memory_bytes":1073741824}],"features":["avx2"]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
