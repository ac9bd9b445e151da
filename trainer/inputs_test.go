package trainer

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// One trainer gets inputs that were sent two ahead, from another goroutine and out of one buffer that is filled again
// at once. Its steps end in the bytes of steps that copy for themselves.
func TestSendingAheadChangesNothing(t *testing.T) {
	const steps, n = 5, 8
	o := withTCL()
	o.Momentum.Queue = 0 // two trainers with queues cannot be told apart by those who count tensors
	straight, ahead := testTrainer(t, o), testTrainer(t, o)
	ready := make(chan Input, 2)
	go func() {
		defer close(ready)
		var buffer Input
		for i := range steps {
			in := testInput(n, i)
			buffer.Pixels = append(buffer.Pixels[:0], in.Pixels...)
			buffer.Positives = append(buffer.Positives[:0], in.Positives...)
			buffer.Second = append(buffer.Second[:0], in.Second...)
			buffer.IDs = in.IDs
			sent, err := ahead.Send(buffer)
			if err != nil {
				t.Error(err)
				return
			}
			clear(buffer.Pixels)
			clear(buffer.Positives)
			clear(buffer.Second)
			ready <- sent
		}
	}()
	i := 0
	for in := range ready {
		a, b := mustStep(t, straight, testBatch(n, i), testInput(n, i)), mustStep(t, ahead, testBatch(n, i), in)
		if a.Losses != b.Losses || !slices.Equal(a.Features.V, b.Features.V) {
			t.Errorf("step %d: %+v, and on an input that was sent %+v", i, a.Losses, b.Losses)
		}
		i++
	}
	if fa, fb := fingerprint(t, straight), fingerprint(t, ahead); i != steps || fa != fb {
		t.Errorf("%d steps end in weights %s and %s", i, fa, fb)
	}
}

// An input that was sent is always freed, whatever becomes of it: testTrainer counts.
func TestSentInputsAreGivenBack(t *testing.T) {
	tr := testTrainer(t, everything())
	send := func(in Input) Input {
		sent := must.Get(tr.Send(in))(t)
		return sent
	}
	send(testInput(4, 0)).Free()
	Input{}.Free()
	in := send(testInput(4, 0))
	if _, err := tr.Step(t.Context(), testBatch(5, 0), in); !errors.Is(err, ErrInput) {
		t.Errorf("a batch of another size: error %v", err)
	}
	in = send(testInput(4, 0))
	mustStep(t, tr, testBatch(4, 0), in)
	in.Free()
	short := testInput(4, 0)
	short.Positives = short.Positives[1:]
	if _, err := tr.Send(short); !errors.Is(err, model.ErrInput) || !strings.Contains(err.Error(), "pixel values") {
		t.Errorf("positives that do not fit: error %v", err)
	}
}
