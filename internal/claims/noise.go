package claims

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Noise tells how much processor time others took while something was measured.
type Noise struct {
	began       time.Time
	busy, owned time.Duration
}

// Start begins to watch.
func Start() Noise {
	return Noise{time.Now(), machineBusy(), ownTime()}
}

// Foreign returns the processor time, in cores, that went to other programs or, on a virtual
// machine, to other guests, since the start; 0 where the system does not tell.
func (n Noise) Foreign() float64 {
	others := (machineBusy() - n.busy) - (ownTime() - n.owned)
	return max(0, others.Seconds()/time.Since(n.began).Seconds())
}

// machineBusy sums the time that all processors were not idle, stolen time included (proc_stat(5)).
func machineBusy() time.Duration {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	const idle, iowait, guest = 4, 5, 9
	var ticks int64
	for i, f := range bytes.Fields(line) {
		v, err := strconv.ParseInt(string(f), 10, 64)
		if err == nil && i != idle && i != iowait && i < guest {
			ticks += v
		}
	}
	return time.Duration(ticks) * (time.Second / 100)
}

// ownTime is the processor time of this program and of the children that it has waited for.
func ownTime() time.Duration {
	var sum time.Duration
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if unix.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}
