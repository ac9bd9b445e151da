// Package tensorboard writes curves in the format of TensorBoard's event files, which other tools read as well.
//
// A file is a sequence of records (TFRecord), each with a length, data and checksums of both. The data is an Event, a
// protocol buffer of TensorFlow. The first event names the version of the format.
package tensorboard

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Numbers of fields in Event, Summary and Summary.Value.
const (
	eventTime    = 1 // double, Unix seconds
	eventStep    = 2 // int64
	eventVersion = 3 // string
	eventSummary = 5 // Summary

	summaryValue  = 1 // Value, repeated
	valueTag      = 1 // string
	valueSimple   = 2 // float
	valueMetadata = 9 // SummaryMetadata

	metadataPlugin = 1 // PluginData
	pluginName     = 1 // string
	pluginContent  = 2 // bytes, here HParamsPluginData

	hparamsSession = 3 // SessionStartInfo
	sessionHparams = 1 // map of string to google.protobuf.Value
	sessionStart   = 5 // double, Unix seconds
	mapKey         = 1
	mapValue       = 2
	protoString    = 3 // of google.protobuf.Value
	protoNumber    = 2
)

// version is the content of a file's first event.
const version = "brain.Event:2"

// Writer writes events. One goroutine may use it.
type Writer struct{ out io.Writer }

// NewWriter starts a file of events.
func NewWriter(out io.Writer, at time.Time) (*Writer, error) {
	w := &Writer{out}
	return w, w.record(protowire.AppendString(protowire.AppendTag(event(at, 0), eventVersion, protowire.BytesType), version))
}

// Scalars writes the values of a step as float32.
func (w *Writer) Scalars(at time.Time, step int64, values map[string]float64) error {
	var summary []byte
	for _, tag := range slices.Sorted(maps.Keys(values)) {
		value := protowire.AppendString(protowire.AppendTag(nil, valueTag, protowire.BytesType), tag)
		value = protowire.AppendFixed32(protowire.AppendTag(value, valueSimple, protowire.Fixed32Type), math.Float32bits(float32(values[tag])))
		summary = protowire.AppendBytes(protowire.AppendTag(summary, summaryValue, protowire.BytesType), value)
	}
	return w.record(protowire.AppendBytes(protowire.AppendTag(event(at, step), eventSummary, protowire.BytesType), summary))
}

// Hyperparameters writes the settings of a run, for TensorBoard's table of runs. Numbers can be sorted there.
func (w *Writer) Hyperparameters(at time.Time, settings map[string]string) error {
	var session []byte
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		var value []byte
		if number, err := strconv.ParseFloat(settings[name], 64); err == nil && !math.IsNaN(number) && !math.IsInf(number, 0) {
			value = double(nil, protoNumber, number)
		} else {
			value = text(protoString, settings[name])
		}
		session = nested(session, sessionHparams, nested(text(mapKey, name), mapValue, value))
	}
	session = double(session, sessionStart, seconds(at))
	plugin := nested(text(pluginName, "hparams"), pluginContent, nested(nil, hparamsSession, session))
	value := nested(text(valueTag, "_hparams_/session_start_info"), valueMetadata, nested(nil, metadataPlugin, plugin))
	return w.record(nested(event(at, 0), eventSummary, nested(nil, summaryValue, value)))
}

// text encodes a string field. Protocol buffers hold only valid UTF-8.
func text(field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, field, protowire.BytesType), strings.ToValidUTF8(s, "\uFFFD"))
}

func nested(to []byte, field protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, field, protowire.BytesType), message)
}

func double(to []byte, field protowire.Number, x float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(to, field, protowire.Fixed64Type), math.Float64bits(x))
}

func seconds(at time.Time) float64 { return float64(at.UnixMicro()) / 1e6 }

// event starts an event. It leaves out step 0, the default value of a protocol buffer.
func event(at time.Time, step int64) []byte {
	e := double(nil, eventTime, seconds(at))
	if step == 0 {
		return e
	}
	return protowire.AppendVarint(protowire.AppendTag(e, eventStep, protowire.VarintType), uint64(step)) //nolint:gosec // steps are not negative
}

// record writes a record.
func (w *Writer) record(data []byte) error {
	frame := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	frame = binary.LittleEndian.AppendUint32(frame, checksum(frame))
	frame = append(frame, data...)
	frame = binary.LittleEndian.AppendUint32(frame, checksum(data))
	if _, err := w.out.Write(frame); err != nil {
		return fmt.Errorf("writing events for TensorBoard: %w", err)
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the CRC-32C of data, masked as TFRecord requires.
func checksum(data []byte) uint32 {
	c := crc32.Checksum(data, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}
