package admit

import "slices"

// This file is padding: a model whose inputs vary in a dimension runs for a few sizes of it only,
// so that requests share batches and plans, and inputs are padded to the next of these.

// Bucket returns the smallest of the sizes, which ascend, that is a length or above; false if none
// is.
func Bucket(sizes []int, length int) (int, bool) {
	i, _ := slices.BinarySearch(sizes, length)
	if i == len(sizes) {
		return 0, false
	}
	return sizes[i], true
}

// Buckets chooses at most n sizes for lengths that were seen, such that padding each length to its
// bucket adds as little as possible. The largest length is the last of them. Its time grows with n
// and the square of the number of different lengths.
func Buckets(lengths []int, n int) []int {
	if len(lengths) == 0 || n < 1 {
		return nil
	}
	size, count := histogram(lengths)
	k := len(size)
	n = min(n, k)
	// least[j][i] is the least sum of padded lengths of the first i sizes in j buckets, of which
	// the last is size i-1; from[j][i] is how many sizes are in the buckets before that one.
	least, from := make([][]int, n+1), make([][]int, n+1)
	for j := range least {
		least[j], from[j] = make([]int, k+1), make([]int, k+1)
		for i := 1; i <= k && j > 0; i++ {
			least[j][i] = size[i-1] * count[i]
			for h := j - 1; h < i && j > 1; h++ {
				s := least[j-1][h] + size[i-1]*(count[i]-count[h])
				if s < least[j][i] {
					least[j][i], from[j][i] = s, h
				}
			}
		}
	}
	var chosen []int
	for j, i := n, k; i > 0; j-- {
		chosen = append(chosen, size[i-1])
		i = from[j][i]
	}
	slices.Reverse(chosen)
	return chosen
}

// histogram returns the different lengths, ascending, and how many lengths are among the first i.
func histogram(lengths []int) (size, count []int) {
	sorted := slices.Sorted(slices.Values(lengths))
	size = slices.Compact(slices.Clone(sorted))
	count = make([]int, len(size)+1)
	for i := range size {
		n, _ := slices.BinarySearch(sorted, size[i]+1)
		count[i+1] = n
	}
	return size, count
}
