package recipe

import (
	"fmt"
	"math"
)

// ScheduleKind is a way in which the rate changes.
type ScheduleKind string

// The schedules. Those that fall to Floor would reach it at the update after the last, as PyTorch's
// do where they are given all updates.
const (
	Constant ScheduleKind = "constant"
	Cosine   ScheduleKind = "cosine" // Loshchilov and Hutter 2017, equation 5, without restarts
	Linear   ScheduleKind = "linear"
	Steps    ScheduleKind = "steps" // times Factor after every Every updates
)

// Schedule says what the rate of each update is.
type Schedule struct {
	Kind   ScheduleKind
	Warmup int     // updates in which the rate rises evenly to what it is without
	Floor  float64 // part of the rate that is left at the end
	Every  int
	Factor float64
}

// At is the part of the full rate at which update t of n is made, counted from 1.
func (s Schedule) At(t, n int64) float64 {
	at := 1.0
	if w := int64(s.Warmup); t <= w {
		return float64(t) / float64(w)
	} else {
		t, n = t-w, n-w
	}
	done := float64(t-1) / float64(max(n, 1))
	switch s.Kind {
	case Cosine:
		at = s.Floor + (1-s.Floor)*(1+math.Cos(math.Pi*min(done, 1)))/2
	case Linear:
		at = s.Floor + (1-s.Floor)*(1-min(done, 1))
	case Steps:
		at = math.Pow(s.Factor, float64((t-1)/int64(s.Every)))
	}
	return at
}

func (s Schedule) check() error {
	switch {
	case s.Warmup < 0:
		return fmt.Errorf("schedule: warmup %d: want none below 0", s.Warmup)
	case !(s.Floor >= 0 && s.Floor <= 1):
		return fmt.Errorf("schedule: floor %g: want a part of the rate, from 0 to 1", s.Floor)
	case s.Kind == Steps && (s.Every < 1 || !positive(s.Factor)):
		return fmt.Errorf("schedule: steps: every %d, factor %g: want both above 0", s.Every,
			s.Factor)
	}
	return nil
}
