package admit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirgpu/weir/share"
)

// Model says how the requests for a model wait.
type Model struct {
	Name string
	// Class goes before priorities: see share.Class.
	Class share.Class
	// Queue is how many requests may wait, and Bytes how large they may be together; both above 0.
	Queue int
	Bytes int64
	// Levels is the number of priorities, 1 being the most urgent; 0 stands for 1. Default is the
	// priority of requests that name none or one that there is not; 0 stands for 1. Both are
	// Triton's priority_levels and default_priority_level (model_config.proto).
	Levels, Default int
	Batch           Batch
	// Time forecasts how long a batch of so many rows with this signature takes, above 0. It must
	// give the same answers, and not less for more rows, until the model is set again.
	Time func(signature string, rows int) time.Duration
}

// Batch says which requests run together. The words are those of Triton's ModelDynamicBatching.
type Batch struct {
	// Max is the most rows of a batch; 0 stands for 1.
	Max int
	// Preferred are sizes at which a batch is sent without waiting, ascending.
	Preferred []int
	// Delay is how long a request may wait for others while the device is idle.
	Delay time.Duration
}

// Account says what an account may have of the device.
type Account struct {
	// Weight is its part against others that have requests, from 0.01 to 100; 0 stands for 1.
	Weight float64
	// Queue is how many of its requests may wait, over all models; 0: no bound of its own.
	Queue int
}

// Validate reports all faults together. The error is an [ErrInvalid].
func (m Model) Validate() error {
	var faults []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	check(m.Name != "", "it needs a name")
	check(m.Class <= share.Opportunistic, "class is %v", m.Class)
	check(m.Queue > 0, "queue is %d: it must be above 0", m.Queue)
	check(m.Bytes > 0, "bytes are %d: they must be above 0", m.Bytes)
	check(m.Levels >= 0, "levels are %d: they must not be negative", m.Levels)
	check(m.Default >= 0 && m.Default <= max(m.Levels, 1),
		"default is %d: it must be from 0 to %d", m.Default, max(m.Levels, 1))
	check(m.Batch.Max >= 0, "max is %d: it must not be negative", m.Batch.Max)
	check(m.Batch.Delay >= 0, "delay is %v: it must not be negative", m.Batch.Delay)
	for i, n := range m.Batch.Preferred {
		check(n > 0 && n <= max(m.Batch.Max, 1) && (i == 0 || n > m.Batch.Preferred[i-1]),
			"preferred sizes are %v: they must rise, from 1 to %d", m.Batch.Preferred,
			max(m.Batch.Max, 1))
	}
	check(m.Time != nil, "it needs a forecast of times")
	if faults == nil {
		return nil
	}
	return fmt.Errorf("model %s: %w: %s", m.Name, ErrInvalid, strings.Join(faults, "; "))
}

// model is a model and what waits for it.
type model struct {
	Model
	groups  map[string]*group
	idle    *group // that was released last
	waiting byClaim
	bytes   int64
	running bool
	leaving bool
}

// set takes a configuration over.
func (m *model) set(c Model) {
	m.Model = c
	m.Levels, m.Default = max(c.Levels, 1), max(c.Default, 1)
	m.Batch.Max = max(c.Batch.Max, 1)
	m.Batch.Preferred = slices.Clone(c.Batch.Preferred)
}

// time is the forecast of a batch, at least a nanosecond and at most never, so that sums stay
// numbers whatever the caller's function gives.
func (m *model) time(signature string, rows int) time.Duration {
	return min(max(m.Time(signature, rows), 1), longest)
}

// longest is the longest forecast, a week: 10^5 of them are not beyond a time.Duration.
const longest = 7 * 24 * time.Hour
