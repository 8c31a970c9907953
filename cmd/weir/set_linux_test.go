package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/share"
)

// TestSetAndPolicy changes the share of a job and the policy of an agent that runs, by command.
func TestSetAndPolicy(t *testing.T) {
	dir, err := os.MkdirTemp("", "weir") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Setenv("WEIR_RUNTIME_DIR", dir)
	weir := func(want int, args ...string) string {
		t.Helper()
		var out, talk bytes.Buffer
		if code := execute(t.Context(), args, nil, &out, &talk); code != want {
			t.Errorf("weir %q: exit code %d, want %d: %s", args, code, want, &talk)
		}
		return out.String() + talk.String()
	}
	says := func(got string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%q does not say %q", got, w)
			}
		}
	}
	says(weir(1, "set", "train", "--compute", "0.5"), "no agent is running")
	says(weir(1, "policy", "fair"), "no agent is running")
	a, err := agent.Start(agent.Config{Dir: dir, Devices: []agent.Device{
		{Name: "test device", Memory: 8 << 30, Fake: true}}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	c, err := agent.Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	g, err := c.Create(agent.JobRequest{Fake: true,
		Job: share.Job{Name: "train", Share: share.Share{Memory: 1 << 30}}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Page.Close()
	says(weir(0, "set", "train", "--compute", "0.5", "--memory", "2GiB", "--device", "cuda:0"),
		"train: memory 2GiB, compute 0.5, limit 1, class standard")
	says(weir(0, "set", "train", "--limit", "0.75", "--class", "latency"),
		"train: memory 2GiB, compute 0.5, limit 0.75, class latency")
	says(weir(1, "set", "train", "--memory", "9GiB"), "wants 9GiB", "has 8GiB")
	says(weir(1, "set", "other", "--compute", "0.1"), "other", "there is none")
	says(weir(2, "set", "train", "--compute", "2"), "compute is 2")
	says(weir(2, "set", "train"), "nothing to set")
	says(weir(2, "set", "train", "--compute", "0.1", "--device", "gpu0"), "want cuda:N")
	says(weir(0, "policy", "fair:slice=5ms"), "policy fair:slice=5ms")
	says(weir(0, "top"), "policy fair:slice=5ms", "75.0 %")
	says(weir(1, "policy", "mps"), "cannot be enforced", "limit, overlap")
	says(weir(2, "policy", "unfair"), "unfair")
	says(weir(2, "policy", "fair:slice=soon"), "slice")
	if got := weir(0, "set", "train", "--json", "--compute", "0.25"); got != `{
  "name": "train",
  "class": "latency",
  "compute": 0.25,
  "limit": 0.75,
  "memory_cap_bytes": 2147483648
}
` {
		t.Errorf("set says %s", got)
	}
	if got := weir(0, "policy", "--json", "fifo"); got != "{\n  \"policy\": \"fifo\"\n}\n" {
		t.Errorf("policy says %s", got)
	}
}
