package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/internal/terminal"
)

// compareFlags ask for a model's latency beside that of something else.
type compareFlags struct {
	with   string
	rounds int
}

func (f *compareFlags) add(c *cobra.Command) {
	c.Flags().
		StringVar(&f.with, "compare", "", "also measure, in turns with this weir: a precision "+
			"(fp32, bf16, auto), onnxruntime, openvino, or another weir `BINARY`")
	c.Flags().
		IntVar(&f.rounds, "rounds", 15, "turns that each has with --compare, in which --runs are "+
			"divided")
	completeFlag(c, "compare", "fp32", "bf16", "auto", onnxRuntime, openVINO)
}

// check refuses flags that make no sense together.
func (f *compareFlags) check(c *cobra.Command, model string, profile bool) error {
	switch {
	case f.with == "" && c.Flags().Changed("compare"):
		return errors.New("--compare is empty: name what this weir is compared with")
	case f.with == "" && c.Flags().Changed("rounds"):
		return errors.New("--rounds are those of --compare: add it")
	case f.with == "":
		return nil
	case f.rounds < 1:
		return fmt.Errorf("--rounds %d: want at least 1, and %d for a verdict", f.rounds,
			roundsForVerdict)
	case profile:
		return errors.New("--profile and --compare measure different things: choose one")
	case model == "-":
		return errors.New("--compare reads the model more than once: give a file, not -")
	}
	return nil
}

// contender is one of two whose latencies are compared.
type contender interface {
	// turn runs the model n times, beside runs that do not count, and returns the median and the
	// least time of one in ms.
	turn(ctx context.Context, n int) (median, least float64, err error)
	// close ends what was started for it.
	close() error
}

// contenderResult is what was measured of one contender.
type contenderResult struct {
	Name     string    `json:"name"`
	MedianMS float64   `json:"median_ms"` // of the rounds' medians
	MinMS    float64   `json:"min_ms"`
	RoundsMS []float64 `json:"rounds_ms"` // median of each
}

// comparison is the result of bench --compare.
type comparison struct {
	contenderResult                 // of this weir
	Threads         int             `json:"threads"`
	Precision       string          `json:"precision"`
	Device          string          `json:"device"`
	Rounds          int             `json:"rounds"` // that both have ended
	RunsPerRound    int             `json:"runs_per_round"`
	Other           contenderResult `json:"other"`
	judgement
}

// compareModel measures a model in turns with what the flags name. What was measured until the
// context ends is returned, unless it is less than a round.
func compareModel(c *cobra.Command, path string, f *benchFlags) (res *comparison, err error) {
	ours, theirs, res, err := openContenders(c, path, f)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ours.close(), theirs.close()) }()
	rounds := f.compare.rounds
	res.RunsPerRound = (f.runs + rounds - 1) / rounds
	err = res.measure(c.Context(), ours, theirs, rounds)
	if err != nil && (c.Context().Err() == nil || res.Rounds == 0) {
		return nil, failed(err)
	}
	res.MedianMS, res.Other.MedianMS = middle(res.RoundsMS), middle(res.Other.RoundsMS)
	res.judgement = judge(res.RoundsMS, res.Other.RoundsMS)
	return res, nil
}

// settle is how long nothing runs before a turn: threads of who had the last one look for more work
// that long before they sleep, and would take cores from the other.
const settle = 20 * time.Millisecond

// measure lets both have their turns; who begins changes from round to round, so that neither has
// the better of a machine that becomes slower.
func (r *comparison) measure(ctx context.Context, ours, theirs contender, rounds int) error {
	sides := []struct {
		contender
		to *contenderResult
	}{{ours, &r.contenderResult}, {theirs, &r.Other}}
	for range rounds {
		var median, least [2]float64
		for k := range sides {
			side := (k + r.Rounds) % 2
			select {
			case <-time.After(settle):
			case <-ctx.Done():
				return ctx.Err()
			}
			var err error
			median[side], least[side], err = sides[side].turn(ctx, r.RunsPerRound)
			if err != nil {
				return fmt.Errorf("%s: %w", sides[side].to.Name, err)
			}
		}
		for side := range sides {
			sides[side].to.add(median[side], least[side])
		}
		r.Rounds++
	}
	return nil
}

// add takes one round's figures.
func (r *contenderResult) add(median, least float64) {
	if len(r.RoundsMS) == 0 {
		r.MinMS = least
	}
	r.RoundsMS, r.MinMS = append(r.RoundsMS, median), min(r.MinMS, least)
}

// middle is the median.
func middle(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

// The verdicts of a comparison.
const (
	faster       = "faster"
	slower       = "slower"
	noDifference = "no difference seen"
	tooFew       = "too few rounds"
)

// judgement is what rounds say of two contenders.
type judgement struct {
	Verdict string `json:"verdict"`
	// Ratio is the median over rounds of the time of the first, as a fraction of that of the other
	// in the same round; between Low and High with the Confidence given.
	Ratio      float64 `json:"ratio"`
	Low        float64 `json:"ratio_low,omitempty"`
	High       float64 `json:"ratio_high,omitempty"`
	Confidence float64 `json:"confidence,omitempty"` // 0 to 1; 0 with too few rounds
	// P is how often rounds would be as one-sided as these were, were there no difference.
	P float64 `json:"p,omitempty"`
}

const (
	// wantedConfidence is the least of a verdict.
	wantedConfidence = 0.95
	// roundsForVerdict is how many pairs a two-sided sign test at this level needs: 2 / 2^n.
	roundsForVerdict = 6
)

// judge compares two contenders by their times in the same rounds. Nothing is supposed about how
// times are distributed: the interval is that between two of the ordered ratios (W. R. Thompson,
// On confidence ranges for the median, Annals of Mathematical Statistics 7, 1936), and P is of the
// sign test, of which it is the inverse.
func judge(first, second []float64) judgement {
	ratios, below, above := ratiosOf(first, second)
	j := judgement{Verdict: tooFew, Ratio: middle(ratios)}
	n := len(ratios)
	if n < roundsForVerdict {
		return j
	}
	slices.Sort(ratios)
	// k ratios lie beyond either end of the interval, the median beyond one of them in tail.
	k, tail := 0, heads(0, n)
	for next := tail + heads(1, n); 1-2*next >= wantedConfidence; next += heads(k+1, n) {
		k, tail = k+1, next
	}
	j.Low, j.High, j.Confidence = ratios[k], ratios[n-1-k], math.Round(1e6*(1-2*tail))/1e6
	j.P = min(1, 2*atMost(min(below, above), below+above))
	switch {
	case j.High < 1:
		j.Verdict = faster
	case j.Low > 1:
		j.Verdict = slower
	default:
		j.Verdict = noDifference
	}
	return j
}

// ratiosOf divides each of the first by that of the second, and counts those on either side of 1.
func ratiosOf(first, second []float64) (ratios []float64, below, above int) {
	ratios = make([]float64, len(first))
	for i := range first {
		ratios[i] = first[i] / second[i]
		if ratios[i] < 1 {
			below++
		} else if ratios[i] > 1 {
			above++
		}
	}
	return ratios, below, above
}

// atMost is the probability of at most k heads in n throws of a coin.
func atMost(k, n int) float64 {
	sum := 0.0
	for i := range k + 1 {
		sum += heads(i, n)
	}
	return sum
}

// heads is the probability of k heads in n throws of a coin, by logarithms: of 1100 throws on,
// neither 2^n nor its inverse is a float64.
func heads(k, n int) float64 {
	if k > n {
		return 0
	}
	return math.Exp(lnFactorial(n) - lnFactorial(k) - lnFactorial(n-k) - float64(n)*math.Ln2)
}

func lnFactorial(n int) float64 {
	v, _ := math.Lgamma(float64(n) + 1)
	return v
}

// print shows both contenders and the verdict.
func (r *comparison) print(w io.Writer) {
	t := table{{"", "", "median ms", "min ms"}}
	for _, s := range []*contenderResult{&r.contenderResult, &r.Other} {
		t = append(t, []string{s.Name, "", fmt.Sprintf("%.3f", s.MedianMS),
			fmt.Sprintf("%.3f", s.MinMS)})
	}
	t.print(w)
	text := fmt.Sprintf("%d rounds of %d runs on %d threads of %s. ", r.Rounds, r.RunsPerRound,
		r.Threads, r.Device)
	between := fmt.Sprintf("between %.3f and %.3f with %.1f %% confidence (sign test: p = %.2g)",
		r.Low, r.High, 100*r.Confidence, r.P)
	switch r.Verdict {
	case tooFew:
		text += fmt.Sprintf("Too few rounds for a verdict, which takes %d: %s took %.3f of the "+
			"time of %s.", roundsForVerdict, r.Name, r.Ratio, r.Other.Name)
	case noDifference:
		text += fmt.Sprintf("No difference seen: %s takes %.3f of the time of %s, %s.", r.Name,
			r.Ratio, r.Other.Name, between)
	default:
		text += fmt.Sprintf("%s is %s: it takes %.3f of the time of %s, %s.", r.Name, r.Verdict,
			r.Ratio, r.Other.Name, between)
	}
	fmt.Fprintln(w, terminal.Wrap(text, textWidth(w)))
}
