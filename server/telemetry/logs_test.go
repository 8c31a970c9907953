package telemetry

import (
	"context"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/server/oip"
)

// TestRequestLog: one line for a request, at the level of its outcome, with its times and without
// its data.
func TestRequestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			err  error
			line string
		}{
			{nil, `level=DEBUG msg=request model=digits version=3 account=me outcome=ok rows=2 ` +
				`bytes_in=100 bytes_out=200 took=45ms queue=8ms compute=6ms`},
			{context.DeadlineExceeded, `level=WARN msg=request model=digits version=3 account=me ` +
				`outcome=late rows=2 bytes_in=100 bytes_out=200 took=28ms queue=8ms compute=6ms`},
			{oip.Faultf(oip.Internal, "the secret of the request"), `level=ERROR msg=request ` +
				`model=digits version=3 account=me outcome=internal_fault rows=2 bytes_in=100 ` +
				`bytes_out=200 took=28ms queue=8ms compute=6ms`},
		} {
			var said strings.Builder
			h := slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug,
				ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
					if a.Key == slog.TimeKey {
						return slog.Attr{}
					}
					return a
				}})
			r := New(Options{Log: slog.New(h)})
			life(r.Model("digits", "3", ""), "me", 2, c.err)
			if got := strings.TrimSpace(said.String()); got != c.line {
				t.Errorf("%v:\n got %s\nwant %s", c.err, got, c.line)
			}
		}
		var said strings.Builder
		r := New(Options{Log: slog.New(NewLogs(slog.NewTextHandler(&said, nil)))})
		life(r.Model("digits", "3", ""), "me", 2, nil)
		if said.Len() > 0 {
			t.Errorf("what nobody wants is written: %s", &said)
		}
	})
}

// TestManyFailures: under overload the log has a bounded number of lines, and says of how many
// failures it has none.
func TestManyFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		r := New(Options{Log: slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{
			Level: slog.LevelDebug}))})
		fail := func() {
			q := r.Begin()
			q.For(r.Model("m", "1", ""), "")
			q.End(oip.Faultf(oip.Unavailable, "no"))
		}
		for range failuresAtOnce + 100 {
			fail()
		}
		if n := strings.Count(said.String(), "\n"); n != failuresAtOnce {
			t.Errorf("%d lines of %d failures", n, failuresAtOnce+100)
		}
		said.Reset()
		time.Sleep(time.Second)
		fail()
		fail()
		lines := strings.Split(said.String(), "\n")
		if !strings.Contains(lines[0], "failed_unsaid=100") ||
			strings.Contains(lines[1], "unsaid") {
			t.Errorf("%q", lines)
		}
		for range failuresAtOnce {
			fail()
		}
		said.Reset()
		life(r.Model("m", "1", ""), "", 1, nil)
		if !strings.Contains(said.String(), "outcome=ok") {
			t.Error("a request that was answered has no line because others failed")
		}
	})
}

// TestLogs: each level is switched for itself, on handlers that were made before too, and a change
// that is wrong changes nothing.
func TestLogs(t *testing.T) {
	var said strings.Builder
	l := NewLogs(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	log := slog.New(l).With("a", 1).WithGroup("g")
	levels := func() string {
		said.Reset()
		log.Debug("x")
		log.Info("x")
		log.Warn("x")
		log.Error("x")
		var list []string
		for line := range strings.Lines(said.String()) {
			_, rest, _ := strings.Cut(line, "level=")
			level, rest, _ := strings.Cut(rest, " ")
			if !strings.Contains(rest, "a=1") {
				t.Errorf("%s: an attribute is lost", line)
			}
			list = append(list, level)
		}
		return strings.Join(list, " ")
	}
	want := map[string]any{"log_info": true, "log_warnings": true, "log_errors": true,
		"log_verbose_level": uint32(0), "log_file": "", "log_format": "ISO8601"}
	if got := l.Settings(); !reflect.DeepEqual(got, want) || levels() != "INFO WARN ERROR" {
		t.Errorf("at first: %v, %s", got, levels())
	}
	for _, c := range []struct {
		changes map[string]any
		levels  string
	}{
		{map[string]any{"log_verbose_level": float64(2)}, "DEBUG INFO WARN ERROR"},
		{map[string]any{"log_info": false}, "DEBUG WARN ERROR"},
		{map[string]any{"log_verbose_level": uint32(0), "log_errors": false}, "WARN"},
		{map[string]any{"log_warnings": false, "log_format": "ISO8601", "log_file": ""}, ""},
		{map[string]any{"log_info": true}, "INFO"},
		{map[string]any{}, "INFO"},
	} {
		if _, err := l.Set(c.changes); err != nil || levels() != c.levels {
			t.Errorf("%v: %s, want %s (%v)", c.changes, levels(), c.levels, err)
		}
	}
	for name, v := range map[string]any{"log_info": "yes", "log_verbose_level": -1.0,
		"log_errors": nil, "log_file": "/x", "log_format": "default", "color": "red"} {
		_, err := l.Set(map[string]any{name: v, "log_warnings": true})
		if err == nil || oip.KindOf(err) == oip.Internal || levels() != "INFO" {
			t.Errorf("%s=%v: %v, %s", name, v, err, levels())
		}
	}
	for _, v := range []any{1.5, 4294967296.0, "1"} {
		if _, err := l.Set(map[string]any{"log_verbose_level": v}); err == nil {
			t.Errorf("a verbose level of %v is taken", v)
		}
	}
}
