package torch

// #include "shim.h"
import "C"

// Elementwise operations broadcast as libtorch's do.

func (s *Scope) unary(op C.int, name string, x *Tensor, a, b float64) *Tensor {
	return s.own(name, C.ps_unary(op, x.h(), C.double(a), C.double(b)))
}

func (s *Scope) binary(op C.int, name string, x, y *Tensor) *Tensor {
	return s.own(name, C.ps_binary(op, x.h(), y.h()))
}

// Add returns x + y.
func (s *Scope) Add(x, y *Tensor) *Tensor { return s.binary(C.PS_ADD, "add", x, y) }

// Sub returns x - y.
func (s *Scope) Sub(x, y *Tensor) *Tensor { return s.binary(C.PS_SUB, "sub", x, y) }

// Mul returns x * y, element by element.
func (s *Scope) Mul(x, y *Tensor) *Tensor { return s.binary(C.PS_MUL, "mul", x, y) }

// Div returns x / y.
func (s *Scope) Div(x, y *Tensor) *Tensor { return s.binary(C.PS_DIV, "div", x, y) }

// MatMul returns the matrix product, over the last two dimensions.
func (s *Scope) MatMul(x, y *Tensor) *Tensor { return s.binary(C.PS_MATMUL, "matmul", x, y) }

// AddScalar returns x + v.
func (s *Scope) AddScalar(x *Tensor, v float64) *Tensor {
	return s.unary(C.PS_ADD_SCALAR, "add_scalar", x, v, 0)
}

// MulScalar returns x * v.
func (s *Scope) MulScalar(x *Tensor, v float64) *Tensor {
	return s.unary(C.PS_MUL_SCALAR, "mul_scalar", x, v, 0)
}

// Neg returns -x.
func (s *Scope) Neg(x *Tensor) *Tensor { return s.unary(C.PS_NEG, "neg", x, 0, 0) }

// Exp returns e^x.
func (s *Scope) Exp(x *Tensor) *Tensor { return s.unary(C.PS_EXP, "exp", x, 0, 0) }

// Log returns the natural logarithm.
func (s *Scope) Log(x *Tensor) *Tensor { return s.unary(C.PS_LOG, "log", x, 0, 0) }

// Sqrt returns the square root.
func (s *Scope) Sqrt(x *Tensor) *Tensor { return s.unary(C.PS_SQRT, "sqrt", x, 0, 0) }

// Square returns x * x.
func (s *Scope) Square(x *Tensor) *Tensor { return s.unary(C.PS_SQUARE, "square", x, 0, 0) }

// GELU returns x times the normal distribution function at x, by the error function.
func (s *Scope) GELU(x *Tensor) *Tensor { return s.own("gelu", C.ps_gelu(x.h(), 0)) }

// QuickGELU returns x * sigmoid(1.702 x), as CLIP uses it.
func (s *Scope) QuickGELU(x *Tensor) *Tensor { return s.own("quick_gelu", C.ps_gelu(x.h(), 1)) }

// Clamp bounds the elements to [lo, hi]. No gradient passes where a bound is exceeded.
func (s *Scope) Clamp(x *Tensor, lo, hi float64) *Tensor {
	return s.unary(C.PS_CLAMP, "clamp", x, lo, hi)
}

// Dropout zeroes elements with probability p, 0 <= p < 1, and multiplies the others by 1/(1-p). On the CPU the choice
// is a function of [Scope.Seed], the number of drops since, and the element's position.
func (s *Scope) Dropout(x *Tensor, p float64) *Tensor {
	return s.own("dropout", C.ps_dropout(x.h(), C.double(p)))
}

// Detach returns x as a constant.
func (s *Scope) Detach(x *Tensor) *Tensor { return s.unary(C.PS_DETACH, "detach", x, 0, 0) }

// Contiguous returns x with its elements row by row in memory.
func (s *Scope) Contiguous(x *Tensor) *Tensor { return s.unary(C.PS_CONTIGUOUS, "contiguous", x, 0, 0) }

// To converts the elements' type.
func (s *Scope) To(x *Tensor, dtype DType) *Tensor { return s.own("to", C.ps_to(x.h(), C.int(dtype))) }

// Tril keeps the lower triangle, with the diagonals up to offset, and zeroes the rest.
func (s *Scope) Tril(x *Tensor, offset int) *Tensor {
	return s.unary(C.PS_TRIL, "tril", x, float64(offset), 0)
}

// Diagonal returns the diagonal of a matrix.
func (s *Scope) Diagonal(x *Tensor) *Tensor { return s.unary(C.PS_DIAGONAL, "diagonal", x, 0, 0) }

// Eq returns x == y as Bool.
func (s *Scope) Eq(x, y *Tensor) *Tensor { return s.binary(C.PS_EQ, "eq", x, y) }

// Gt returns x > y as Bool.
func (s *Scope) Gt(x, y *Tensor) *Tensor { return s.binary(C.PS_GT, "gt", x, y) }

// Ge returns x >= y as Bool.
func (s *Scope) Ge(x, y *Tensor) *Tensor { return s.binary(C.PS_GE, "ge", x, y) }

// And returns the logical and, as Bool.
func (s *Scope) And(x, y *Tensor) *Tensor { return s.binary(C.PS_AND, "and", x, y) }

// Or returns the logical or, as Bool.
func (s *Scope) Or(x, y *Tensor) *Tensor { return s.binary(C.PS_OR, "or", x, y) }

// Not returns the logical not, as Bool.
func (s *Scope) Not(x *Tensor) *Tensor { return s.unary(C.PS_NOT, "not", x, 0, 0) }

// EqScalar returns x == v as Bool.
func (s *Scope) EqScalar(x *Tensor, v float64) *Tensor { return s.unary(C.PS_EQ_SCALAR, "eq", x, v, 0) }

// MaskedFill returns x with v where mask is true.
func (s *Scope) MaskedFill(x, mask *Tensor, v float64) *Tensor {
	return s.own("masked_fill", C.ps_masked_fill(x.h(), mask.h(), C.double(v)))
}

// Where returns yes where condition is true, and no elsewhere.
func (s *Scope) Where(condition, yes, no *Tensor) *Tensor {
	return s.own("where", C.ps_where(condition.h(), yes.h(), no.h()))
}
