// Package conv computes f32 convolutions on one core at a time, in the layout of ONNX: images N x C
// x D x H x W, weights M x C/group x kernel, with fewer spatial axes written as axes of length 1.
//
// [Params] describes a convolution; [New] plans it once into a [Convolution], a plain value that
// holds no data. The weights are packed once with [Convolution.PackWeights]. The work is cut into
// [Convolution.Chunks] independent chunks, which a caller runs in any order on as many goroutines
// as it likes with [Convolution.Run], each with its own scratch of [Convolution.ScratchLen] floats.
// The package starts no goroutine and Run allocates nothing.
//
// A dense or grouped convolution is a matrix product whose right operand, the patches of the image,
// is never stored: blocks of it are gathered into panels as package gemm asks for them
// (Chellapilla, Puri and Simard, "High Performance Convolutional Neural Networks for Document
// Processing", 2006, without the stored matrix). A depthwise convolution, one input channel per
// group, is computed directly, vectors of output columns at a time. One of 3 x 3 whose weights
// serve many runs, or are turned, is computed in tiles where that takes less time (Lavin and Gray,
// "Fast Algorithms for Convolutional Neural Networks", 2016): its packed weights are four times as
// large.
// [NewTranspose] plans transposed convolutions and [NewPool] pooling.
//
// [Bytes] plans convolutions of bytes in the same layout; [NHWC] and [NHWCWindows] plan them,
// and pooling, for images whose channels lie in the last axis, and make bytes of the sums where
// they arise. [NHWC16] and [Windows16] plan them for images of bfloat16 on Intel's tiles, with
// sums, bias, residual and activation in float32: products of pixels where they lie, and depthwise
// convolutions, pooling and means.
//
// Where there are several algorithms, a cost model chooses: [Params.Algorithms] lists them, and
// Params.Algorithm asks for one.
//
// [Reference], [ReferenceTranspose] and [ReferencePool] are the definitions that the fast paths are
// tested against; results agree with them to rounding: a convolution as a product has the bound of
// package gemm, K being the taps times the input channels of a group, and the sums of long pooling
// windows that of [vec.ColumnSums]. In tiles rounding errors are some ten times larger at the worst
// place of a tile, in the root of their mean squares, and less than four times in the mean of its
// places, and a NaN or an infinity reaches all outputs of the tiles that see it. By every
// algorithm, equal filters give equal bits, and so do equal windows that see the image under the
// same taps, in tiles at the same place of a tile. Packed weights belong to this process and
// instruction level: they are no file format.
package conv
