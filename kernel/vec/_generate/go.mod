module github.com/weirgpu/weir/kernel/vec/_generate

go 1.26.0
