package policy_test

import (
	"testing"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
)

// crowd is a snapshot of so many jobs, half of which wait, some with guarantees and limits.
func crowd(p share.Policy, n int) *share.Snapshot {
	s := &share.Snapshot{Units: 132, Memory: 1 << 36, Now: 1, Can: share.Can{Partition: true,
		Overlap: true, Resize: true, Launches: true, Copies: true, Bandwidth: true}}
	for i := range n {
		j := share.JobState{ID: share.JobID(i + 1), Phase: share.Phase(i % 2), Remaining: -1}
		if i < 8 {
			j.Share = share.Share{Compute: 0.05, Limit: 0.5}
		}
		if keeps, ok := p.(share.Stateful); ok {
			j.State = keeps.NewJobState()
		}
		s.Jobs = append(s.Jobs, j)
	}
	return s
}

// TestDecideAllocates: once a policy has seen a crowd, it decides without allocating.
func TestDecideAllocates(t *testing.T) {
	for _, row := range policy.All() {
		p := mustNew(t, row.Name)
		s := crowd(p, 40)
		decide := func() {
			s.Now += us
			p.Decide(s)
		}
		decide()
		if n := testing.AllocsPerRun(100, decide); n > 0 {
			t.Errorf("%s: %.0f allocations a decision", row.Name, n)
		}
	}
}

// BenchmarkDecide measures one decision, among 8 and 1,000 jobs.
func BenchmarkDecide(b *testing.B) {
	for _, row := range policy.All() {
		for _, n := range []int{8, 1000} {
			p, err := policy.New(row.Name)
			if err != nil {
				b.Fatal(err)
			}
			s := crowd(p, n)
			b.Run(row.Name+"/"+map[int]string{8: "8", 1000: "1000"}[n], func(b *testing.B) {
				for b.Loop() {
					s.Now += us
					p.Decide(s)
				}
			})
		}
	}
}
