module github.com/weirgpu/weir/kernel/nbits/_generate

go 1.26.0
