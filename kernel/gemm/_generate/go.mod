module github.com/weirgpu/weir/kernel/gemm/_generate

go 1.26.0
