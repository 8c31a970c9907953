package telemetry

import (
	"context"
	"log/slog"
	"time"

	"github.com/weirgpu/weir/server/oip"
)

// Under overload most requests fail: beyond these bounds their lines are left out and counted.
const (
	failuresASecond = 10
	failuresAtOnce  = 20
)

// log writes the line of a request that has ended.
func (q *Request) log(at *moments, k outcome) {
	log := q.of.o.Log
	level := slog.LevelWarn
	switch k {
	case ok:
		level = slog.LevelDebug
	case outcomeOf(errInternal):
		level = slog.LevelError
	}
	if log == nil || !log.Enabled(context.Background(), level) {
		return
	}
	if k != ok && !q.of.failures.Allow() {
		q.of.unsaid.Add(1)
		return
	}
	attrs := []slog.Attr{slog.String("model", q.model.name), slog.String("version",
		q.model.version), slog.String("account", q.name), slog.String("outcome", names[k]),
		slog.Int("rows", q.rows), slog.Int64("bytes_in", q.in), slog.Int64("bytes_out", q.out),
		slog.Duration("took", at[Sent]-at[Received])}
	for _, d := range []struct {
		name string
		took time.Duration
		to   Phase
	}{
		{"queue", at.queued(), Granted},
		{"compute", at[Computed] - at[Granted], Computed},
	} {
		if q.marks[d.to].Load() != 0 {
			attrs = append(attrs, slog.Duration(d.name, d.took))
		}
	}
	if q.traced != nil {
		attrs = append(attrs, slog.String("trace", q.traced.parent.Trace.String()))
	}
	if k != ok {
		if n := q.of.unsaid.Swap(0); n > 0 {
			attrs = append(attrs, slog.Int64("failed_unsaid", n))
		}
	}
	log.LogAttrs(context.Background(), level, "request", attrs...)
}

// errInternal is an error that is the server's fault.
var errInternal = oip.Faultf(oip.Internal, "")
