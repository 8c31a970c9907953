package raster

// Constants of the inverse DCT in 13 binary places.
const (
	fix0298631336 = 2446
	fix0390180644 = 3196
	fix0541196100 = 4433
	fix0765366865 = 6270
	fix0899976223 = 7373
	fix1175875602 = 9633
	fix1501321110 = 12299
	fix1847759065 = 15137
	fix1961570560 = 16069
	fix2053119869 = 16819
	fix2562915447 = 20995
	fix3072711026 = 25172
)

// inverseDCT is libjpeg's accurate integer transform (jidctint.c, after Loeffler, Ligtenberg and
// Moschytz 1989): columns to two binary places, then rows to integers. Other transforms, package
// image's among them, round some elements the other way.
func inverseDCT(b *[64]int32) {
	for i := range 8 {
		inverseDCT8(b[i:], 8, 11)
	}
	for i := range 8 {
		inverseDCT8(b[8*i:], 1, 18)
	}
}

// inverseDCT8 transforms eight elements that lie step apart and drops shift binary places.
func inverseDCT8(b []int32, step int, shift uint) {
	in := func(k int) int32 { return b[k*step] }
	z1 := (in(2) + in(6)) * fix0541196100
	even2, even3 := z1-in(6)*fix1847759065, z1+in(2)*fix0765366865
	even0, even1 := (in(0)+in(4))<<13, (in(0)-in(4))<<13
	a := [4]int32{even0 + even3, even1 + even2, even1 - even2, even0 - even3}

	t0, t1, t2, t3 := in(7), in(5), in(3), in(1)
	z5 := (t0 + t2 + t1 + t3) * fix1175875602
	y1, y2 := -(t0+t3)*fix0899976223, -(t1+t2)*fix2562915447
	y3, y4 := z5-(t0+t2)*fix1961570560, z5-(t1+t3)*fix0390180644
	c := [4]int32{
		t3*fix1501321110 + y1 + y4,
		t2*fix3072711026 + y2 + y3,
		t1*fix2053119869 + y2 + y4,
		t0*fix0298631336 + y1 + y3,
	}

	half := int32(1) << (shift - 1)
	for k := range 4 {
		b[k*step] = (a[k] + c[k] + half) >> shift
		b[(7-k)*step] = (a[k] - c[k] + half) >> shift
	}
}
