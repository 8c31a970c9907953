package policy

import "github.com/weirgpu/weir/share"

// Profile is what a job uses of a device while it runs alone on all of it.
type Profile struct {
	// Units are the compute units that it fills, and beyond which it gets no faster; 0: all.
	Units int
	// Bandwidth is the part of the memory bandwidth that it takes, and Copies that of the link
	// between host and device, 0 to 1.
	Bandwidth, Copies float64
}

// ProfileOf returns the profile that a forecast tells of. Link is the traffic that the link between
// host and device can carry, in bytes a second; 0: it is never short.
func ProfileOf(f *share.Forecast, link share.Bytes) Profile {
	p := Profile{Units: f.Units, Bandwidth: f.Bandwidth}
	if link > 0 && f.Time > 0 {
		p.Copies = min(1, float64(f.Copied)/f.Time.Seconds()/float64(link))
	}
	return p
}

// Slowdowns predicts how much longer each of some jobs takes if all run at once on all units of a
// device, over alone: out[i] is at least 1, and belongs to jobs[i]. It is the model of Chen, Yang,
// Guo, Kannan, Mars and Tang, "Prophet: Precise QoS prediction on non-preemptive accelerators to
// improve utilization in warehouse-scale computers", ASPLOS 2017, section 4, whose three resources
// are processing elements, global memory bandwidth and transfers over PCIe:
//
//	got[i]   = min(Units[i], level)             the level at which sum of got = units, or none
//	speed[i] = got[i] / Units[i]
//	T        = sum of Bandwidth[k] * speed[k]
//	speed[i] = speed[i] / (1 - Bandwidth[i] + Bandwidth[i]*T)     where T > 1
//	C        = sum of Copies[k] * speed[k]
//	speed[i] = speed[i] / (1 - Copies[i] + Copies[i]*C)           where C > 1
//	out[i]   = 1 / speed[i]
//
// A job that takes a part b of a resource alone spends as much of its time on it, and that part
// grows as the resource is overbooked. Caches, and that kernels of one job differ, are left out.
// It allocates nothing; len(out) must be at least len(jobs).
func Slowdowns(units int, jobs []Profile, out []float64) {
	level := waterLevel(units, jobs)
	for i, p := range jobs {
		out[i] = min(1, level/width(units, p))
	}
	overbook(jobs, out, func(p Profile) float64 { return p.Bandwidth })
	overbook(jobs, out, func(p Profile) float64 { return p.Copies })
	for i := range jobs {
		out[i] = 1 / out[i]
	}
}

// width is how many units of so many a job fills.
func width(units int, p Profile) float64 {
	if p.Units > 0 && p.Units < units {
		return float64(p.Units)
	}
	return float64(units)
}

// waterLevel is the number of units at which each job is cut off, so that all is given away.
func waterLevel(units int, jobs []Profile) float64 {
	level := 0.0
	for {
		// Those below the level are satisfied; the others divide what these leave.
		left, hungry := float64(units), 0
		for _, p := range jobs {
			if w := width(units, p); w <= level {
				left -= w
			} else {
				hungry++
			}
		}
		if hungry == 0 || left/float64(hungry) <= level*(1+1e-12) {
			return max(level, 1e-9)
		}
		level = left / float64(hungry)
	}
}

// overbook slows down the jobs by what they use of a resource, if they want more than there is.
func overbook(jobs []Profile, speed []float64, part func(Profile) float64) {
	sum := 0.0
	for i, p := range jobs {
		sum += part(p) * speed[i]
	}
	if sum <= 1 {
		return
	}
	for i, p := range jobs {
		speed[i] /= 1 - part(p) + part(p)*sum
	}
}
