package share

// Claim is one job's claim on a device at one moment, in fractions of it.
type Claim struct {
	Weight    float64 // above 0
	Guarantee float64 // the least it gets, if it demands so much
	Limit     float64 // the most it gets
	Demand    float64 // the most it can use; 1 for a job with work throughout
}

// ClaimOf returns the claim of a job with this share and this demand.
func ClaimOf(s Share, demand float64) Claim {
	return Claim{Weight: s.Weight(), Guarantee: s.Guarantee(), Limit: s.Cap(), Demand: demand}
}

func (c Claim) most() float64  { return max(0, min(c.Limit, c.Demand)) }
func (c Claim) least() float64 { return max(0, min(c.Guarantee, c.most())) }

// unfilled marks an entitlement that Entitle has still to find.
const unfilled = -1

// Entitle sets out[i] to the fraction of the device that claims[i] deserves: the weighted max-min
// fair allocation with a floor and a ceiling per job,
//
//	out[i] = clamp(level * weight[i], floor[i], ceiling[i])
//	floor  = min(guarantee, ceiling), ceiling = min(limit, demand)
//
// where the water level is the one at which the whole device is given away. If the ceilings sum to
// less than one, each job gets its ceiling and the rest stays idle; if the floors sum to more than
// one, each job gets its floor scaled down. This is the allocation of Bertsekas and Gallager, Data
// Networks (1992), section 6.5.2, with the reservations and limits of mClock (OSDI 2010, section
// 3). It allocates nothing; len(out) must be at least len(claims).
func Entitle(claims []Claim, out []float64) {
	var floors, ceilings float64
	for i, c := range claims {
		floors += c.least()
		ceilings += c.most()
		out[i] = unfilled
	}
	switch {
	case ceilings <= 1:
		for i, c := range claims {
			out[i] = c.most()
		}
	case floors >= 1:
		for i, c := range claims {
			out[i] = c.least() / floors
		}
	default:
		for !fill(claims, out) {
		}
	}
}

// fill makes one round of water-filling: it lays the level over the jobs still unfilled, then fixes
// those that the level would take over their ceiling, or those it would leave under their floor,
// whichever excess is larger. The larger excess stays on its side in all later rounds, so what is
// fixed is right, and every round fixes a job or is the last: true.
func fill(claims []Claim, out []float64) bool {
	left, weights := 1.0, 0.0
	for i, c := range claims {
		if out[i] == unfilled {
			weights += c.Weight
		} else {
			left -= out[i]
		}
	}
	level := max(0, left) / weights
	var over, under float64
	for i, c := range claims {
		if out[i] == unfilled {
			over += max(0, level*c.Weight-c.most())
			under += max(0, c.least()-level*c.Weight)
		}
	}
	done := true
	for i, c := range claims {
		want := level * c.Weight
		switch {
		case out[i] != unfilled:
		case over >= under && want >= c.most() && over > 0:
			out[i], done = c.most(), false
		case under > over && want <= c.least():
			out[i], done = c.least(), false
		}
	}
	if !done {
		return allFilled(out[:len(claims)])
	}
	for i, c := range claims {
		if out[i] == unfilled {
			out[i] = level * c.Weight
		}
	}
	return true
}

func allFilled(out []float64) bool {
	for _, x := range out {
		if x == unfilled {
			return false
		}
	}
	return true
}
