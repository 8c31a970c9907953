package op

// twister is the generator MT19937 of Matsumoto and Nishimura (1998), seeded by one number, as
// NumPy's RandomState is.
type twister struct {
	state [624]uint32
	at    int
}

func newTwister(seed uint32) *twister {
	t := &twister{at: len(twister{}.state)}
	for i := range t.state {
		t.state[i] = seed
		seed = 1812433253*(seed^seed>>30) + uint32(i) + 1
	}
	return t
}

// advance makes the next 624 numbers.
func (t *twister) advance() {
	n := len(t.state)
	for i := range n {
		y := t.state[i]&0x80000000 | t.state[(i+1)%n]&0x7fffffff
		t.state[i] = t.state[(i+397)%n] ^ y>>1
		if y&1 != 0 {
			t.state[i] ^= 0x9908b0df
		}
	}
	t.at = 0
}

func (t *twister) uint32() uint32 {
	if t.at == len(t.state) {
		t.advance()
	}
	y := t.state[t.at]
	t.at++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// float64 draws from [0, 1) with 53 bits.
func (t *twister) float64() float64 {
	a, b := t.uint32()>>5, t.uint32()>>6
	return (float64(a)*(1<<26) + float64(b)) / (1 << 53)
}
