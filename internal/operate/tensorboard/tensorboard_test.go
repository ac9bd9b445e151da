package tensorboard

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// written is what TensorBoard 2.21 writes of the same events, with its RecordWriter and a deterministic protocol
// buffer.
const written = "1800000000000000a37f4b220900001060b813da411a0d627261696e2e4576656e743a32150f8ae433" +
	"000000000000000ca720560900006060b813da4110ac022a250a110a0a6576616c2f74725f72311500000e420a100a09737465702f6c6f737315cdccccbdcbb90186"

func TestTheSameBytesAsTensorBoard(t *testing.T) {
	var out bytes.Buffer
	w := must.Get(NewWriter(&out, time.UnixMilli(1_750_000_000_250)))(t)
	must.Do(t, w.Scalars(time.UnixMilli(1_750_000_001_500), 300, map[string]float64{"step/loss": -0.1, "eval/tr_r1": 35.5}))
	if got := hex.EncodeToString(out.Bytes()); got != written {
		t.Errorf("got  %s\nwant %s", got, written)
	}
}

// settings is what TensorBoard 2.21 writes of two hyperparameters, with the protocol buffers of its own plugin.
const settings = "1800000000000000a37f4b220900001060b813da411a0d627261696e2e4576656e743a32150f8ae46800000000000000" +
	"fe9c7ad40900001060b813da412a5d0a5b0a1c5f68706172616d735f2f73657373696f6e5f73746172745f696e666f4a3b0a390a0768706172616d73122e1a2c0a0f0a024c521209112d431cebe2361a3f0a100a0652454349504512061a046d6166612900001060b813da412c78bb25"

func TestTheSameHyperparametersAsTensorBoard(t *testing.T) {
	var out bytes.Buffer
	at := time.UnixMilli(1_750_000_000_250)
	w := must.Get(NewWriter(&out, at))(t)
	must.Do(t, w.Hyperparameters(at, map[string]string{"RECIPE": "mafa", "LR": "1e-4"}))
	if got := hex.EncodeToString(out.Bytes()); got != settings {
		t.Errorf("got  %s\nwant %s", got, settings)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestAFileThatCannotBeWritten(t *testing.T) {
	if _, err := NewWriter(full{}, time.Unix(1, 0)); err == nil || err.Error() != "writing events for TensorBoard: no space left on device" {
		t.Errorf("error %v", err)
	}
}
