// Package raster decodes image files to the same pixels, to the bit, as the C libraries that other
// ONNX runtimes use.
//
// Meet first: [Config] reads the size of an image, [Decode] its pixels as 8-bit red, green and
// blue.
//
// BMP, JPEG, PNG, TIFF, WebP and the portable formats PBM, PGM, PPM and PAM are known by their
// first bytes. Chroma is upsampled and converted as libjpeg-turbo and libwebp do, and baseline JPEG
// transformed as libjpeg does, which all differs from package image. Progressive JPEG is
// transformed by package image and may differ by one or two levels. Alpha is dropped, samples of
// more than 8 bits keep their upper 8.
//
// Concurrency: the functions share no state.
//
// What it refuses: JPEG 2000, for which Go has no maintained decoder ([ErrFormat]), images of more
// than [MaxPixels], and damaged files.
package raster
