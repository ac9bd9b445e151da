package schemas

import "github.com/vmihailenco/msgpack/v5"

// fieldWriter writes the fields of a struct, and keeps the first error.
type fieldWriter struct {
	e   *msgpack.Encoder
	err error
}

// begin begins a map of fields that are always there, and of those of the others that are.
func (w *fieldWriter) begin(always int, others ...bool) {
	for _, there := range others {
		if there {
			always++
		}
	}
	w.keep(w.e.EncodeMapLen(always))
}

func (w *fieldWriter) name(name string) { w.keep(w.e.EncodeString(name)) }

func (w *fieldWriter) bytes(name string, value []byte) {
	w.name(name)
	w.keep(w.e.EncodeBytes(value))
}

func (w *fieldWriter) text(name, value string) {
	w.name(name)
	w.keep(w.e.EncodeString(value))
}

func (w *fieldWriter) integer(name string, value int64) {
	w.name(name)
	w.keep(w.e.EncodeInt(value))
}

func (w *fieldWriter) keep(err error) {
	if w.err == nil {
		w.err = err
	}
}
