package core_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/policy"
)

// BenchmarkHandOver is a holder that gives back at the end of its lease while all others wait: one
// event, one decision, one grant.
func BenchmarkHandOver(b *testing.B) {
	for _, row := range policy.All() {
		for _, n := range []int{8, 1000} {
			b.Run(fmt.Sprint(row.Name, "/", n), func(b *testing.B) {
				d := under(b, row.Name)
				var holders []share.JobID
				heed := func() {
					for _, n := range d.said {
						switch n.Kind {
						case core.Granted:
							holders = append(holders, n.Job)
						case core.Released:
							holders = slices.DeleteFunc(holders,
								func(id share.JobID) bool { return id == n.Job })
						}
					}
				}
				for i := range n {
					s := share.Share{Compute: 1 / float64(n), Class: share.Class(i % 3)}
					if row.Honours.Static || row.Needs.Partition {
						s.Compute = 0 // does not fit so often
					}
					d.do(d.admit(fmt.Sprint(i), s), core.Want)
					heed()
				}
				b.ReportAllocs()
				for b.Loop() {
					d.now += 2 * time.Millisecond
					for len(holders) == 0 { // the policy leaves a pause
						d.now = max(d.now, d.c.Wake())
						_ = d.step(core.Event{Kind: core.Tick})
						heed()
					}
					d.do(holders[0], core.Return)
					heed()
				}
			})
		}
	}
}
