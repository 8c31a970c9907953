package vec

import "testing"

func TestBytes(t *testing.T) {
	for n := range 2100 {
		x, y := make([]byte, n), make([]byte, n+1)
		want := int32(0)
		for i := range x {
			x[i] = byte(255 - i%7*n)
			want += int32(x[i])
		}
		if got := SumBytes(x); got != want {
			t.Fatalf("sum of %d bytes is %d, want %d", n, got, want)
		}
		y[n] = 77
		FlipBytes(y, x)
		for i := range x {
			if int(int8(y[i])) != int(x[i])-128 {
				t.Fatalf("%d became %d", x[i], int8(y[i]))
			}
		}
		if y[n] != 77 {
			t.Fatal("wrote beyond the end")
		}
	}
}
