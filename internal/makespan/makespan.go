package makespan

// Cores returns the time that one, two and four workers take, each times the number of workers: the
// less they wait for the last chunks, the closer it is to three times the sum of the costs. Chunk c
// costs cost(c). Workers take chunks in order, the one that is free first the next (list
// scheduling; Graham, "Bounds for Certain Multiprocessing Anomalies", 1966).
func Cores(chunks int, cost func(c int) float64) float64 {
	var one [1]float64
	var two [2]float64
	var four [4]float64
	for c := range chunks {
		w := cost(c)
		assign(one[:], w)
		assign(two[:], w)
		assign(four[:], w)
	}
	return one[0] + 2*longest(two[:]) + 4*longest(four[:])
}

// assign gives work to the worker that is free first.
func assign(workers []float64, work float64) {
	first := 0
	for i, t := range workers {
		if t < workers[first] {
			first = i
		}
	}
	workers[first] += work
}

func longest(workers []float64) (t float64) {
	for _, w := range workers {
		t = max(t, w)
	}
	return t
}
