module github.com/weirgpu/weir/kernel/conv/_generate

go 1.26.0
