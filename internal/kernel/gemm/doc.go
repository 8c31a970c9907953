// Package gemm multiplies matrices on one core at a time: C = act(alpha*op(A)*op(B) + bias +
// beta*R), from float32 to float32, the multiplications in float32 or, by [Format], in bfloat16.
//
// [Params] describes a product; [New] plans it once into a [Product], a plain value that holds no
// data. The work of a Product is cut into [Product.Chunks] chunks that are independent of each
// other: a caller runs them in any order, on as many goroutines as it likes, with [Product.Run],
// giving the data in [Args] and each goroutine its own scratch of [Product.ScratchLen] floats. The
// package starts no goroutine and Run allocates nothing. A chunk is some tens of microseconds of
// work, so a caller that checks between chunks whether it may go on yields quickly.
//
// An operand that stays the same over many products, such as the weights of a layer, is packed once
// with [Format.PackA] or [Format.PackB] and given as packed; the others are packed block by
// block into scratch as the product goes, but where so few tiles share a panel that it is read
// where it lies ([Params.ReadsB]). An operand B that does not exist in memory, such as the patches
// of a convolution, is produced by [Params.Fill].
//
// The blocking is that of Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication" (ACM TOMS 34(3), 2008): a micro-kernel keeps a tile of C in registers over a
// block of K and applies the epilogue as it stores the last. Tiles are 14x32 with AVX-512, 6x16
// with AVX2 and 4x8 in plain Go. The path of instructions is read from internal/cpuinfo when an
// operand is packed and when a Product is made, and must be the same. Packed data is therefore for
// the same build on the same path (cpuinfo.CurrentPath) only: it is no format to exchange.
//
// [Reference] is the definition that every path is tested against. Sums of floats are taken in an
// order that depends on the path, so results agree to rounding, not bit for bit, between paths; on
// one path they are the same bits, whatever runs the chunks, and all elements of a product are
// added up in one order, so that equal rows, or columns, give equal bits wherever they lie. That
// order may be another in a product of other sizes. Sums of bytes are the same bits everywhere. NaN
// and infinities propagate as IEEE 754 says.
//
// An element of a float product lies within (2048 + K/2048 + 1) * 2^-24 of the exact one, relative
// to the sum of the magnitudes of its K products: at most 2048 fused additions follow each other in
// a block of K, and each block is added to those before it, each time with a relative error of
// 2^-24. That is 1.3e-4 for K up to 10^5, 4.2e-4 for 10^7 and 3.1e-3 for 10^8. In bfloat16 blocks
// are twice as long, operands are rounded to 2^-9 first, and hardware takes subnormal numbers for
// zeros. Errors come near the bound where all products have one sign; else they grow with its root.
// With [Params.Near] a part of 384 takes the place of a block in F32.
package gemm
