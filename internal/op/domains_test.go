package op_test

import (
	"github.com/weirgpu/weir/internal/op"
	_ "github.com/weirgpu/weir/internal/op/microsoft" // tests of every row test these rows, too
	_ "github.com/weirgpu/weir/internal/op/ml"
	"github.com/weirgpu/weir/internal/op/optest"
)

func init() {
	op.UseHarness(optest.Check, optest.Eval, optest.Row, optest.Holds, optest.RulesAgree,
		optest.Dirty, optest.Show)
}
