/*
 * How many bytes a copy moves, from its parameters. The pointers are the program's; the driver
 * would read them the same way.
 */
#include "weir.h"

uint64_t weir_bytes_2d(const CUDA_MEMCPY2D *c)
{
	return c ? (uint64_t)c->WidthInBytes * c->Height : 0;
}

uint64_t weir_bytes_2d_v1(const CUDA_MEMCPY2D_v1 *c)
{
	return c ? (uint64_t)c->WidthInBytes * c->Height : 0;
}

uint64_t weir_bytes_3d_v1(const CUDA_MEMCPY3D_v1 *c)
{
	return c ? (uint64_t)c->WidthInBytes * c->Height * c->Depth : 0;
}

uint64_t weir_bytes_3d(const CUDA_MEMCPY3D *c)
{
	return c ? (uint64_t)c->WidthInBytes * c->Height * c->Depth : 0;
}

uint64_t weir_bytes_3d_peer(const CUDA_MEMCPY3D_PEER *c)
{
	return c ? (uint64_t)c->WidthInBytes * c->Height * c->Depth : 0;
}

uint64_t weir_bytes_3d_ops(size_t n, const CUDA_MEMCPY3D_BATCH_OP *ops)
{
	uint64_t total = 0;
	for (size_t i = 0; ops && i < n; i++)
		total += (uint64_t)ops[i].width * ops[i].height * ops[i].depth;
	return total;
}

uint64_t weir_bytes_sum(const size_t *sizes, size_t n)
{
	uint64_t total = 0;
	for (size_t i = 0; sizes && i < n; i++)
		total += sizes[i];
	return total;
}
