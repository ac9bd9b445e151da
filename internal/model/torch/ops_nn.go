package torch

// #include "shim.h"
import "C"

import "fmt"

func orNil(t *Tensor) *C.ps_tensor {
	if t == nil {
		return nil
	}
	return t.h()
}

// Softmax returns e^x / sum(e^x) along a dimension.
func (s *Scope) Softmax(x *Tensor, dim int) *Tensor {
	return s.along(C.PS_SOFTMAX, "softmax", x, dim, 0, 0)
}

// LogSoftmax returns the logarithm of the softmax along a dimension.
func (s *Scope) LogSoftmax(x *Tensor, dim int) *Tensor {
	return s.along(C.PS_LOG_SOFTMAX, "log_softmax", x, dim, 0, 0)
}

// Linear returns x wᵀ + b, with w of shape [out, in]; b may be nil.
func (s *Scope) Linear(x, w, b *Tensor) *Tensor {
	return s.Linears(x, []*Tensor{w}, []*Tensor{b})
}

// Linears applies up to three linear layers to the same input. It returns their outputs side by side: [..., out1 + out2 +
// out3].
func (s *Scope) Linears(x *Tensor, ws, bs []*Tensor) *Tensor {
	if len(ws) == 0 || len(ws) != len(bs) {
		panic(&Error{Op: "linear", Reason: fmt.Sprintf("%d weights and %d biases", len(ws), len(bs))})
	}
	weights, biases := make([]*C.ps_tensor, len(ws)), make([]*C.ps_tensor, len(ws))
	for i := range ws {
		weights[i], biases[i] = ws[i].h(), orNil(bs[i])
	}
	return s.own("linear", C.ps_linear(x.h(), &weights[0], &biases[0], C.int(len(ws))))
}

// LayerNorm normalises the rows of x, scales them by w and adds b.
func (s *Scope) LayerNorm(x, w, b *Tensor, eps float64) *Tensor {
	return s.AddLayerNorm(x, nil, w, b, eps)
}

// AddLayerNorm applies LayerNorm to x + y; y may be nil.
func (s *Scope) AddLayerNorm(x, y, w, b *Tensor, eps float64) *Tensor {
	return s.own("layer_norm", C.ps_layer_norm(x.h(), orNil(y), w.h(), b.h(), C.double(eps)))
}

// Embedding takes the rows of w that ids (Int64) name. The row padding, if not -1, gets no gradient from here.
func (s *Scope) Embedding(w, ids *Tensor, padding int64) *Tensor {
	return s.own("embedding", C.ps_embedding(w.h(), ids.h(), C.int64_t(padding)))
}

// Normalize divides by the Euclidean norm along a dimension, or by eps where the norm is smaller.
func (s *Scope) Normalize(x *Tensor, dim int, eps float64) *Tensor {
	return s.own("normalize", C.ps_normalize(x.h(), C.int64_t(dim), C.double(eps)))
}

// CrossEntropy returns the mean over rows of -log softmax(logits)[target], for logits [rows, classes] and Int64 targets
// [rows]. Rows whose target is ignore do not count; when no row counts the result is NaN.
func (s *Scope) CrossEntropy(logits, targets *Tensor, ignore int64) *Tensor {
	return s.own("cross_entropy", C.ps_cross_entropy(logits.h(), targets.h(), C.int64_t(ignore)))
}

// SelfAttention returns softmax(q kᵀ scale + mask) v, head by head. qkv holds queries, keys and values side by side:
// [batch, length, 3*heads*width]. The result is [batch, length, heads*width]. mask may be nil, or [batch, queries,
// keys], with 1 for batch or queries if it is the same for all. No gradient reaches it. A dropout above 0 is the share
// of the softmax's elements that are dropped as by [Scope.Dropout].
func (s *Scope) SelfAttention(qkv, mask *Tensor, heads int, scale, dropout float64) *Tensor {
	return s.own("attention", C.ps_attention(nil, qkv.h(), orNil(mask), C.int64_t(heads), C.double(scale), C.double(dropout)))
}

// CrossAttention is [Scope.SelfAttention] with separate queries: q is [batch, queries, heads*width], kv is [batch,
// keys, 2*heads*width].
func (s *Scope) CrossAttention(q, kv, mask *Tensor, heads int, scale, dropout float64) *Tensor {
	return s.own("attention", C.ps_attention(q.h(), kv.h(), orNil(mask), C.int64_t(heads), C.double(scale), C.double(dropout)))
}

// Backward adds the gradients of loss, a scalar, to those of the parameters that it depends on.
func (s *Scope) Backward(loss *Tensor) { check("backward", C.ps_backward(loss.h())) }

// Grad returns the accumulated gradient of t, or nil if there is none.
func (s *Scope) Grad(t *Tensor) *Tensor {
	r := C.ps_grad(t.h())
	check("grad", r.error)
	if r.tensor == nil {
		return nil
	}
	return s.add(r.tensor)
}
