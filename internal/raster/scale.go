package raster

import "math"

// Part copies a part of an image, which holds it.
func (m *Image) Part(x, y, width, height int) *Image {
	p := &Image{Width: width, Height: height, RGB: make([]byte, 0, 3*width*height)}
	for row := range height {
		p.RGB = append(p.RGB, m.RGB[3*((y+row)*m.Width+x):][:3*width]...)
	}
	return p
}

// Scale brings an image to a size by a triangle filter that widens where it shrinks, one axis after
// the other, as Pillow's bilinear resizing does. Samples are from 0 to 255, in the order of pixels.
func (m *Image) Scale(width, height int) []float64 {
	in := make([]float64, len(m.RGB))
	for i, v := range m.RGB {
		in[i] = float64(v)
	}
	rows := resample(in, m.Height, m.Width, 3, width)
	return resample(rows, 1, m.Height, 3*width, height)
}

// resample scales the middle one of three axes from n to so many.
func resample(in []float64, outer, n, inner, to int) []float64 {
	if n == to {
		return in
	}
	out := make([]float64, outer*to*inner)
	ratio := float64(n) / float64(to)
	support := max(ratio, 1)
	for k := range to {
		center := (float64(k) + 0.5) * ratio
		low, high := max(0, int(center-support+0.5)), min(n, int(center+support+0.5))
		var sum float64
		weights := make([]float64, high-low)
		for i := range weights {
			weights[i] = max(0, 1-math.Abs((float64(low+i)+0.5-center)/support))
			sum += weights[i]
		}
		for o := range outer {
			for i, w := range weights {
				from, at := in[(o*n+low+i)*inner:][:inner], out[(o*to+k)*inner:][:inner]
				for c, v := range from {
					at[c] += v * w / sum
				}
			}
		}
	}
	return out
}

// OfChannel is the number of a channel in a list that has one for each, one for all, or none, which
// stands for otherwise.
func OfChannel(list []float64, channel int, otherwise float64) float64 {
	switch len(list) {
	case 0:
		return otherwise
	case 1:
		return list[0]
	}
	return list[channel]
}
