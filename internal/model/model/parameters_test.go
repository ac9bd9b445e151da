package model_test

import "testing"

func TestParametersAreThoseOfAModel(t *testing.T) {
	c := smallConfig()
	want := int64(0)
	for _, p := range newModel(t, workerOf(t, 1), c, 1).Params() {
		n := int64(1)
		for _, size := range p.Tensor.Shape() {
			n *= size
		}
		want += n
	}
	if got := c.Parameters(); got != want {
		t.Errorf("%d parameters, want %d", got, want)
	}
}
