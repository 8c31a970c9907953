// Package attention computes scaled dot-product attention, softmax(scale·QKᵀ + masks)·V (Vaswani et
// al., "Attention Is All You Need", 2017, section 3.2), without ever storing the matrix of scores.
//
// [Params] describes a call; [New] plans it once into an [Attention], a plain value that holds no
// data. The work of an Attention is cut into [Attention.Chunks] chunks, each a block of queries of
// one head, which a caller runs in any order, on as many goroutines as it likes, with
// [Attention.Run], giving the data in [Args] and each goroutine its own scratch of
// [Attention.ScratchLen] floats. Results do not depend on who runs which chunk. The package starts
// no goroutine and Run allocates nothing.
//
// A chunk walks over blocks of keys and keeps for each query the greatest score so far, the sum of
// the exponentials below it and the weighted sum of values, which it scales down when a greater
// score comes (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et
// al., "FlashAttention", NeurIPS 2022). Blocks are computed transposed, a register panel of queries
// wide: maxima and sums are then element-wise, what the exponential leaves is an operand of the
// second product as it is, and values are read where they lie. The products are those of
// internal/kernel/gemm.
//
// The sums of exponentials are taken in float32 over a block of at most 256 keys, and in float64
// over blocks: they are within 1.6e-5 for any number of keys, those of a softmax by rows within
// 1e-5. Weighted values are added up in float32, those of n keys with at most 320 + n/16384
// roundings after each other, or, for few queries, 1024 + n/1024, each with a relative error of
// 2^-24, and one more where a greater score has them scaled down.
//
// Keys that no query of a panel may see are skipped if their weight is exactly zero and none of
// them has an infinity or NaN, which would show in the sums all the same. [Reference] is the
// definition. A query all of whose keys are hidden by -Inf gives NaN, or zeros with [Params.Zero].
//
// [Gradient] gives the gradients of queries, keys and values of what an Attention with
// [Params.Stats] computed. It computes scores again, from the greatest score and the sum of
// exponentials of each query (Dao, "FlashAttention-2", 2023, section 3.1), a block of 128 queries
// by one of 128 keys at a time; where that would be more than 16 Mi multiply-adds a block has fewer
// queries, but a panel at least. Its sums over keys and over queries are added up in the order of
// blocks, at most 144 terms of one after another: those of n terms have at most 144 + n/64
// roundings after each other, each with a relative error of 2^-24. [GradientReference] is the
// definition.
//
// What it refuses: elements other than float32, head elements that do not lie beside each other,
// dropout.
package attention
