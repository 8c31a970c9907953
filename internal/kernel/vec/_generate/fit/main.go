// Command fit prints the polynomial coefficients in ../coefficients.go. Each is the minimax
// polynomial of a weighted function on an interval, found by the exchange algorithm of E. Ya. Remez
// (1934) in float64 and rounded to float32.
package main

import (
	"fmt"
	"math"
)

// problem asks for the polynomial p of a degree that makes the greatest |weight(x) * (f(x) - p(x))|
// over lo..hi least.
type problem struct {
	name      string
	f, weight func(float64) float64
	lo, hi    float64
	degree    int
}

func main() {
	one := func(float64) float64 { return 1 }
	problems := []problem{
		{"expPoly", func(x float64) float64 { return expTail(x) },
			func(x float64) float64 { return x * x / math.Exp(x) }, -math.Ln2 / 2, math.Ln2 / 2, 4},
		{"logPoly", logTail, func(x float64) float64 {
			return x * x
		}, math.Sqrt2/2 - 1, math.Sqrt2 - 1, 7},
		{"erfNear", erfNear, one, 0, 0.95 * 0.95, 5},
		{"erfFar", erfFar, func(x float64) float64 {
			return x * math.Erfc(x) / math.Erf(x)
		}, 0.9, 4, 5},
	}
	for _, p := range problems {
		coefficients, worst := p.solve()
		fmt.Printf("// greatest weighted error %.2g\nvar %s = []float32{\n", worst, p.name)
		for _, c := range coefficients {
			fmt.Printf("\t%.9g,\n", float32(c))
		}
		fmt.Println("}")
	}
}

// expTail is (exp(x) - 1 - x) / x².
func expTail(x float64) float64 {
	sum, term := 0.0, 0.5
	for k := 3.0; k < 24; k++ {
		sum += term
		term *= x / k
	}
	return sum
}

// logTail is (log(1+x) - x + x²/2) / x³.
func logTail(x float64) float64 {
	if math.Abs(x) > 0.05 {
		return (math.Log1p(x) - x + x*x/2) / (x * x * x)
	}
	sum, term := 0.0, 1.0
	for k := 3.0; k < 24; k++ {
		sum += term / k
		term *= -x
	}
	return sum
}

// erfNear is erf(√s)/√s - 1.
func erfNear(s float64) float64 {
	sum, term := 0.0, 2/math.SqrtPi
	for k := 0.0; k < 40; k++ {
		sum += term / (2*k + 1)
		term *= -s / (k + 1)
	}
	return sum - 1
}

// erfFar is (log(1 - erf(x)) + x) / x: the far branch computes 1 - exp(x*p(x) - x).
func erfFar(x float64) float64 { return math.Log(math.Erfc(x))/x + 1 }

const grid = 4000

func (p problem) solve() (coefficients []float64, worst float64) {
	points := make([]float64, p.degree+2)
	for i := range points {
		t := math.Cos(math.Pi * float64(i) / float64(len(points)-1))
		points[i] = (p.lo+p.hi)/2 - (p.hi-p.lo)/2*t
		if i == 0 || i == len(points)-1 {
			points[i] += (p.hi - p.lo) * 1e-4 * (0.5 - float64(i)/float64(len(points)-1)) * 2
		}
	}
	for range 60 {
		coefficients = p.level(points)
		points, worst = p.extremes(coefficients, len(points))
	}
	return coefficients, worst
}

// level solves for the polynomial whose weighted error is equal at the points, with alternating
// sign.
func (p problem) level(points []float64) []float64 {
	n := len(points)
	m := make([][]float64, n)
	for i, x := range points {
		row := make([]float64, n+1)
		power := 1.0
		for k := 0; k <= p.degree; k++ {
			row[k] = power
			power *= x
		}
		row[n-1] = 1 / p.weight(x)
		if i%2 == 1 {
			row[n-1] = -row[n-1]
		}
		row[n] = p.f(x)
		m[i] = row
	}
	return eliminate(m)[:n-1]
}

func eliminate(m [][]float64) []float64 {
	n := len(m)
	for k := range n {
		best := k
		for i := k; i < n; i++ {
			if math.Abs(m[i][k]) > math.Abs(m[best][k]) {
				best = i
			}
		}
		m[k], m[best] = m[best], m[k]
		for i := k + 1; i < n; i++ {
			q := m[i][k] / m[k][k]
			for j := k; j <= n; j++ {
				m[i][j] -= q * m[k][j]
			}
		}
	}
	x := make([]float64, n)
	for i := n - 1; i >= 0; i-- {
		x[i] = m[i][n]
		for j := i + 1; j < n; j++ {
			x[i] -= m[i][j] * x[j]
		}
		x[i] /= m[i][i]
	}
	return x
}

// extremes returns the n alternating extremes of the weighted error with the greatest values, from
// left to right.
func (p problem) extremes(coefficients []float64, n int) (points []float64, worst float64) {
	var values []float64
	for i := range grid + 1 {
		x := p.lo + (p.hi-p.lo)*float64(i)/grid
		e := p.weight(x) * (p.f(x) - evaluate(coefficients, x))
		worst = max(worst, math.Abs(e))
		last := len(values) - 1
		switch {
		case last < 0 || math.Signbit(e) != math.Signbit(values[last]):
			points, values = append(points, x), append(values, e)
		case math.Abs(e) > math.Abs(values[last]):
			points[last], values[last] = x, e
		}
	}
	for len(points) > n {
		if math.Abs(values[0]) < math.Abs(values[len(values)-1]) {
			points, values = points[1:], values[1:]
		} else {
			points, values = points[:len(points)-1], values[:len(values)-1]
		}
	}
	if len(points) < n {
		panic(fmt.Sprintf("%s: %d extremes, want %d", p.name, len(points), n))
	}
	return points, worst
}

func evaluate(coefficients []float64, x float64) float64 {
	y := 0.0
	for i := len(coefficients) - 1; i >= 0; i-- {
		y = y*x + coefficients[i]
	}
	return y
}
