package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"strconv"
	"strings"
)

// Kinds of changes.
const (
	Arithmetic = "arithmetic" // another operator
	Comparison = "comparison" // another relation
	Boundary   = "boundary"   // < for <= and the like
	Condition  = "condition"  // negated, or && for ||
	Constant   = "constant"   // another number or truth value
	Removed    = "removed"    // a statement left out
	Swapped    = "swapped"    // two neighbouring arguments
	Returned   = "returned"   // zero values before the work is done
)

// Kinds lists them in the order of the report.
var Kinds = []string{Arithmetic, Comparison, Boundary, Condition, Constant, Removed, Swapped,
	Returned}

var arithmetic = map[token.Token]string{
	token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*", token.REM: "*",
	token.AND: "|", token.OR: "&", token.XOR: "&", token.SHL: ">>", token.SHR: "<<",
	token.AND_NOT: "&", token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+=", token.MUL_ASSIGN: "/=",
	token.QUO_ASSIGN: "*=", token.REM_ASSIGN: "*=", token.AND_ASSIGN: "|=",
	token.OR_ASSIGN: "&=", token.SHL_ASSIGN: ">>=", token.SHR_ASSIGN: "<<=",
}

var comparison = map[token.Token]string{
	token.EQL: "!=", token.NEQ: "==", token.LSS: ">", token.GTR: "<", token.LEQ: ">=",
	token.GEQ: "<=",
}

var boundary = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">",
}

// sites walks a function and reports the changes that its syntax allows. Whether a changed function
// still compiles is for the type checker to say.
type sites struct {
	file   *token.File
	text   []byte
	report func(kind string, start, end int, to string)
	bound  ast.Expr // the relation of the last bounding if
}

// offset is a position as an index into the file.
func (s *sites) offset(p token.Pos) int { return s.file.Offset(p) }

// source is the text of a node.
func (s *sites) source(n ast.Node) string {
	return string(s.text[s.offset(n.Pos()):s.offset(n.End())])
}

func (s *sites) replace(kind string, n ast.Node, to string) {
	s.report(kind, s.offset(n.Pos()), s.offset(n.End()), to)
}

func (s *sites) operator(kind string, at token.Pos, from token.Token, to string) {
	if to != "" {
		s.report(kind, s.offset(at), s.offset(at)+len(from.String()), to)
	}
}

// walk visits a body whose function has the given results.
func (s *sites) walk(body *ast.BlockStmt, results *ast.FieldList) {
	s.statements(body.List)
	s.returns(body, results)
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			s.walk(n.Body, n.Type.Results)
			return false
		case *ast.CallExpr:
			return s.call(n)
		case *ast.BlockStmt:
			if n != body {
				s.statements(n.List)
			}
		case *ast.CaseClause:
			s.statements(n.Body)
		case *ast.CommClause:
			s.statements(n.Body)
		case *ast.IfStmt:
			s.replace(Condition, n.Cond, "!("+s.source(n.Cond)+")")
			if s.bounds(n) {
				s.bound = n.Cond
			}
		default:
			s.expression(n)
		}
		return true
	})
}

// bounds reports whether a statement only sets one of two operands to the other, as in if x < y { x
// = y }: on the boundary they are equal, so that < for <= changes nothing.
func (s *sites) bounds(n *ast.IfStmt) bool {
	cond, ok := n.Cond.(*ast.BinaryExpr)
	if !ok || boundary[cond.Op] == "" || n.Else != nil || len(n.Body.List) != 1 {
		return false
	}
	set, ok := n.Body.List[0].(*ast.AssignStmt)
	if !ok || set.Tok != token.ASSIGN || len(set.Lhs) != 1 || len(set.Rhs) != 1 {
		return false
	}
	x, y := s.source(cond.X), s.source(cond.Y)
	to, from := s.source(set.Lhs[0]), s.source(set.Rhs[0])
	return to == x && from == y || to == y && from == x
}

// expression reports changes of operators and constants.
func (s *sites) expression(n ast.Node) {
	switch n := n.(type) {
	case *ast.ForStmt:
		if n.Cond != nil {
			s.replace(Condition, n.Cond, "!("+s.source(n.Cond)+")")
		}
	case *ast.BinaryExpr:
		s.operator(Arithmetic, n.OpPos, n.Op, arithmetic[n.Op])
		s.operator(Comparison, n.OpPos, n.Op, comparison[n.Op])
		if n != s.bound {
			s.operator(Boundary, n.OpPos, n.Op, boundary[n.Op])
		}
		other := map[token.Token]string{token.LAND: "||", token.LOR: "&&"}
		s.operator(Condition, n.OpPos, n.Op, other[n.Op])
	case *ast.AssignStmt:
		s.operator(Arithmetic, n.TokPos, n.Tok, arithmetic[n.Tok])
	case *ast.IncDecStmt:
		s.operator(Arithmetic, n.TokPos, n.Tok,
			map[token.Token]string{token.INC: "--", token.DEC: "++"}[n.Tok])
	case *ast.BasicLit:
		s.literal(n)
	case *ast.Ident:
		if to := map[string]string{"true": "false", "false": "true"}[n.Name]; to != "" {
			s.replace(Constant, n, to)
		}
	}
}

func (s *sites) literal(n *ast.BasicLit) {
	switch n.Kind {
	case token.INT:
		if v, err := strconv.ParseUint(n.Value, 0, 63); err == nil {
			s.replace(Constant, n, strconv.FormatUint(v+1, 10))
		}
	case token.FLOAT:
		to := "(2*" + n.Value + ")"
		if v, err := strconv.ParseFloat(n.Value, 64); err == nil && v == 0 {
			to = "1.0"
		}
		s.replace(Constant, n, to)
	}
}

// commute are the functions whose first two arguments may change places.
var commute = map[string]bool{"min": true, "max": true, "bytes.Equal": true, "maps.Equal": true,
	"reflect.DeepEqual": true, "slices.Equal": true}

// call reports swapped arguments, and whether to look into them.
func (s *sites) call(n *ast.CallExpr) bool {
	name := s.source(n.Fun)
	switch {
	case strings.HasSuffix(name, "Errorf") || name == "errors.New" || name == "panic":
		return false
	case name == "make" && len(n.Args) == 3:
		n.Args = n.Args[:2]
		return true
	case commute[name]:
		return true
	}
	for i := range max(0, len(n.Args)-1) {
		a, b := s.source(n.Args[i]), s.source(n.Args[i+1])
		if a != b {
			between := string(s.text[s.offset(n.Args[i].End()):s.offset(n.Args[i+1].Pos())])
			s.report(Swapped, s.offset(n.Args[i].Pos()), s.offset(n.Args[i+1].End()), b+between+a)
		}
	}
	return true
}

// statements reports those of a list that can be left out.
func (s *sites) statements(list []ast.Stmt) {
	for _, n := range list {
		switch n := n.(type) {
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.IfStmt, *ast.BranchStmt, *ast.RangeStmt:
			s.replace(Removed, n, "{}")
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				s.replace(Removed, n, "{}")
			}
		}
	}
}

// returns reports returns of zero values before each of a body's own statements but the last
// return.
func (s *sites) returns(body *ast.BlockStmt, results *ast.FieldList) {
	for _, n := range body.List {
		if _, ok := n.(*ast.ReturnStmt); ok && len(body.List) > 1 {
			continue
		}
		at := s.offset(n.Pos())
		s.report(Returned, at, at, "return "+s.zeros(results)+"; ")
	}
}

// zeros is the zero values of a function's results.
func (s *sites) zeros(results *ast.FieldList) string {
	var list []string
	if results != nil {
		for _, f := range results.List {
			for range max(1, len(f.Names)) {
				list = append(list, fmt.Sprintf("*new(%s)", s.source(f.Type)))
			}
		}
	}
	return strings.Join(list, ", ")
}

// recovers reports whether a body calls recover outside of functions in it.
func recovers(body *ast.BlockStmt) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.Ident:
			found = found || n.Name == "recover"
		}
		return !found
	})
	return found
}
