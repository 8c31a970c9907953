// Package attention computes scaled dot-product attention, softmax(scale·QKᵀ + masks)·V (Vaswani et
// al., "Attention Is All You Need", 2017, section 3.2), without ever storing the matrix of scores.
//
// [Params] describes a call; [New] plans it once into an [Op], a plain value that holds no data.
// The work of an Op is cut into [Op.Chunks] chunks, each a block of queries of one head, which a
// caller runs in any order, on as many goroutines as it likes, with [Op.Run], giving the data in
// [Args] and each goroutine its own scratch of [Op.ScratchLen] floats. Results do not depend on who
// runs which chunk. The package starts no goroutine and Run allocates nothing.
//
// A chunk walks over blocks of keys and keeps for each query the greatest score so far, the sum of
// the exponentials below it and the weighted sum of values, which it scales down when a greater
// score comes (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et
// al., "FlashAttention", NeurIPS 2022). Blocks are computed transposed, a register panel of queries
// wide: maxima and sums are then element-wise, what the exponential leaves is an operand of the
// second product as it is, and values are read where they lie. The products are those of
// kernel/gemm.
//
// Keys that no query of a panel may see are skipped where their weight is exactly zero and no
// infinity or NaN among them would show in the sums all the same. [Reference] is the definition. A
// query all of whose keys are hidden by -Inf gives NaN, or zeros with [Params.Zero].
//
// What it refuses: elements other than float32, head elements that do not lie beside each other,
// dropout.
package attention
