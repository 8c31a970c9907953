package telemetry

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"

	"github.com/weirgpu/weir/server/oip"
)

// The settings of logs, by their names (Triton, extension_logging.md).
const (
	logInfo     = "log_info"
	logWarnings = "log_warnings"
	logErrors   = "log_errors"
	logVerbose  = "log_verbose_level"
	logFile     = "log_file"
	logFormat   = "log_format"
)

// isoFormat is the one format that lines have.
const isoFormat = "ISO8601"

// Logs is a slog.Handler whose levels are switched while the program runs, each for itself.
type Logs struct {
	to slog.Handler
	on *levels // that of all handlers made of one
}

// levels are those that are written.
type levels struct {
	mu      sync.Mutex
	written [4]atomic.Bool // debug, info, warnings, errors
	verbose uint32
}

// NewLogs returns a handler that hands on to another what is at least information. The other must
// take every level.
func NewLogs(to slog.Handler) *Logs {
	l := &Logs{to: to, on: new(levels)}
	for i := range l.on.written {
		l.on.written[i].Store(i > 0)
	}
	return l
}

// place is that of a level among those that are switched.
func place(l slog.Level) int {
	switch {
	case l < slog.LevelInfo:
		return 0
	case l < slog.LevelWarn:
		return 1
	case l < slog.LevelError:
		return 2
	}
	return 3
}

// Enabled implements slog.Handler.
func (l *Logs) Enabled(_ context.Context, level slog.Level) bool {
	return l.on.written[place(level)].Load()
}

// Handle implements slog.Handler.
func (l *Logs) Handle(ctx context.Context, r slog.Record) error { return l.to.Handle(ctx, r) }

// WithAttrs implements slog.Handler.
func (l *Logs) WithAttrs(a []slog.Attr) slog.Handler { return &Logs{l.to.WithAttrs(a), l.on} }

// WithGroup implements slog.Handler.
func (l *Logs) WithGroup(name string) slog.Handler { return &Logs{l.to.WithGroup(name), l.on} }

// Settings are the settings as Triton names them: booleans, a uint32 and strings.
func (l *Logs) Settings() map[string]any {
	l.on.mu.Lock()
	defer l.on.mu.Unlock()
	return l.on.settings()
}

func (s *levels) settings() map[string]any {
	return map[string]any{logInfo: s.written[1].Load(), logWarnings: s.written[2].Load(),
		logErrors: s.written[3].Load(), logVerbose: s.verbose, logFile: "", logFormat: isoFormat}
}

// Set changes settings, and returns all of them. Any verbose level from 1 on writes what is for
// debugging. The error is an *oip.Fault, and then nothing is changed.
func (l *Logs) Set(changes map[string]any) (map[string]any, error) {
	s := l.on
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, v := range changes {
		if err := checkLog(name, v); err != nil {
			return nil, err
		}
	}
	for name, v := range changes {
		switch name {
		case logInfo:
			s.written[1].Store(v.(bool))
		case logWarnings:
			s.written[2].Store(v.(bool))
		case logErrors:
			s.written[3].Store(v.(bool))
		case logVerbose:
			s.verbose, _ = number(v)
			s.written[0].Store(s.verbose > 0)
		}
	}
	return s.settings(), nil
}

func checkLog(name string, v any) error {
	switch name {
	case logInfo, logWarnings, logErrors:
		if _, ok := v.(bool); !ok {
			return oip.Faultf(oip.Invalid, "%s is true or false", name)
		}
	case logVerbose:
		if _, ok := number(v); !ok {
			return oip.Faultf(oip.Invalid, "%s is a whole number from 0 to %d", name,
				uint32(math.MaxUint32))
		}
	case logFile:
		if v != "" {
			return oip.Faultf(oip.Unsupported, "%s cannot be changed: logs go to stderr", name)
		}
	case logFormat:
		if v != isoFormat {
			return oip.Faultf(oip.Unsupported, "%s cannot be changed: it is %s", name, isoFormat)
		}
	default:
		return oip.Faultf(oip.Invalid, "there is no setting %.40q of logs", name)
	}
	return nil
}

// number is a value of either protocol: a uint32, or a number of JSON.
func number(v any) (uint32, bool) {
	switch n := v.(type) {
	case uint32:
		return n, true
	case float64:
		return uint32(n), n >= 0 && n <= math.MaxUint32 && n == math.Trunc(n)
	}
	return 0, false
}
