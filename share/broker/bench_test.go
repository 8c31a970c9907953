package broker_test

import (
	"context"
	"testing"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
)

// benchJobs returns the leases of n jobs under fair, the first of them held.
func benchJobs(b *testing.B, n int) ([]*broker.Job, *broker.Lease) {
	br, err := broker.New(broker.Config{Config: core.Config{Device: "cpu:0", Units: 4,
		Memory: share.GiB, Policy: named(b, "fair")}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(br.Close)
	jobs := make([]*broker.Job, n)
	for i := range jobs {
		jobs[i] = admit(b, br, string(rune('a'+i)), share.Share{Compute: 1 / float64(n)})
	}
	lease, err := jobs[0].Acquire(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	return jobs, lease
}

// BenchmarkRevoked is the check between two steps.
func BenchmarkRevoked(b *testing.B) {
	_, lease := benchJobs(b, 1)
	for b.Loop() {
		_ = lease.Revoked()
	}
}

// BenchmarkRenewAlone is a job that nobody competes with.
func BenchmarkRenewAlone(b *testing.B) {
	_, lease := benchJobs(b, 1)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if err := lease.Renew(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRenewAmongIdle is a job beside fifteen that have no work.
func BenchmarkRenewAmongIdle(b *testing.B) {
	_, lease := benchJobs(b, 16)
	ctx := context.Background()
	for b.Loop() {
		if err := lease.Renew(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHandOff passes the device to and fro between two goroutines: an operation is two
// hand-offs.
func BenchmarkHandOff(b *testing.B) {
	br, err := broker.New(broker.Config{Config: core.Config{Device: "cpu:0", Units: 4,
		Memory: share.GiB, Policy: named(b, "fifo")}})
	if err != nil {
		b.Fatal(err)
	}
	defer br.Close()
	ctx := context.Background()
	var leases [2]*broker.Lease
	var jobs [2]*broker.Job
	for i := range leases {
		jobs[i] = admit(b, br, string(rune('a'+i)), share.Share{})
	}
	if leases[0], err = jobs[0].Acquire(ctx); err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l, err := jobs[1].Acquire(ctx)
		for err == nil {
			jobs[1].BeginIteration()
			jobs[1].EndIteration()
			err = l.Renew(ctx)
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		jobs[0].BeginIteration()
		jobs[0].EndIteration()
		if err := leases[0].Renew(ctx); err != nil {
			b.Fatal(err)
		}
	}
	jobs[1].End(nil)
	leases[0].Release()
	<-done
}
