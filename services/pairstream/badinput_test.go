//go:build cgo

package main

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/png"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// entry is a file of a tar.
type entry struct{ name, content string }

func tarOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		must.Do(t, w.WriteHeader(&tar.Header{Name: e.name, Mode: 0o600, Size: int64(len(e.content))}))
		must.Get(w.Write([]byte(e.content)))(t)
	}
	must.Do(t, w.Close())
	return out.Bytes()
}

// picture returns a good image, another one for every shade.
func picture(t *testing.T, shade byte) string {
	t.Helper()
	im := image.NewGray(image.Rect(0, 0, 40, 40))
	for i := range im.Pix {
		im.Pix[i] = shade + byte(i)
	}
	var out bytes.Buffer
	must.Do(t, png.Encode(&out, im))
	return out.String()
}

// hugePNG returns an image that declares 60,000 pixels each way, and is 57 bytes long.
func hugePNG() string {
	chunk := func(kind string, data []byte) string {
		body := append([]byte(kind), data...)
		out := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
		return string(binary.BigEndian.AppendUint32(append(out, body...), crc32.ChecksumIEEE(body)))
	}
	header := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 60_000), 60_000)
	return "\x89PNG\r\n\x1a\n" + chunk("IHDR", append(header, 8, 2, 0, 0, 0)) + chunk("IDAT", nil) + chunk("IEND", nil)
}

// TestBadInputIsSetAside publishes broken things that a crawl may hold, between good pairs. Each ends among the dead
// letters with its place and a reason. Everything else goes through, and the counts add up.
func TestBadInputIsSetAside(t *testing.T) {
	if apart(t) {
		return
	}
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	t.Setenv("NAMESPACE", "bad")
	in := setUpPipeline(t, 8)
	good := picture(t, 1)
	for name, content := range map[string][]byte{
		"a.tar": tarOf(t,
			entry{"1.png", good}, entry{"1.txt", "a good pair"},
			entry{"2.png", good[:len(good)/2]}, entry{"2.txt", "an image that is cut"},
			entry{"3.jpg", "no image at all"}, entry{"3.txt", "text that calls itself an image"},
			entry{"4.png", picture(t, 4)}, entry{"4.txt", " \n"},
			entry{"5.png", picture(t, 5)}, entry{"5.txt", "caf\xe9"},
			entry{"6.png", hugePNG()}, entry{"6.txt", "sixty thousand pixels wide"},
			entry{"7.png", picture(t, 7)}, entry{"7.txt", "another good pair"}),
		"b.tar": tarOf(t,
			entry{"1.png", picture(t, 8)}, entry{"1.txt", "a good pair in a tar that is cut"},
			entry{"2.txt", "the caption comes first"}, entry{"2.png", strings.Repeat("x", 3000)})[:4*1024+700],
	} {
		must.Do(t, os.MkdirAll(in("bad"), 0o755))
		must.Do(t, os.WriteFile(in("bad/"+name), content, 0o600))
	}
	mustCommand(t, "produce", in("bad"))
	log := openNamespace(t)
	p := log.NewPublisher(stream.PublisherOptions{})
	for schema, value := range map[string]string{
		schemas.SchemaPair: "\xc1 no msgpack", "pairstream.pair/99": "\x80", schemas.SchemaBatch: "\x80", "": "\x80",
	} {
		must.Do(t, p.PublishBytes(t.Context(), schemas.Pairs, 0, schema, []byte(value)))
	}
	must.Do(t, p.Close(t.Context()))
	mustCommand(t, "seal", "--final")

	encoder := start(t, "encoder")
	published, embedded := 0, 0
	for lane := range log.Config().Lanes {
		awaitFinalSeal(t, log, encoder, schemas.Embeddings, lane)
		published += countWithoutSeals(t, log, schemas.Pairs, lane)
		embedded += countWithoutSeals(t, log, schemas.Embeddings, lane)
	}
	encoder.stop(t)
	wanted := []string{ // what each reason begins with
		"unusable image: image ", "unusable image: image ", "unusable image: image ", // cut, no image, 60,000 pixels wide
		"caption empty: the caption is empty", "caption encoding: the caption is not UTF-8",
		"tar cut: the tar ends after 1212 of the entry's 3000 bytes",
		"unknown schema: decoding: unknown schema \"pairstream.pair/99\"", "unknown schema: decoding: unknown schema \"\"",
		"invalid record: decoding pairstream.batch/1", "malformed: decoding pairstream.pair/1: not well-formed msgpack",
	}
	dead := 0
	for d, err := range log.DeadLetters(t.Context()) {
		must.Do(t, err)
		dead++
		t.Logf("%s/%d/%d, %s: %s", d.Topic, d.Lane, d.Offset, d.Stage, d.Reason)
		if i := slices.IndexFunc(wanted, func(w string) bool { return strings.HasPrefix(d.Reason, w) }); i < 0 {
			t.Errorf("not wanted: %s", d.Reason)
		} else {
			wanted = slices.Delete(wanted, i, i+1)
		}
		if d.Topic != schemas.Pairs || d.Stage != "encoder" || !bytes.Equal(d.Value, valueAt(t, log, d.Lane, d.Offset)) {
			t.Errorf("it is not what lies at %s/%d/%d, or of another stage: %s", d.Topic, d.Lane, d.Offset, d.Stage)
		}
	}
	if published != embedded+dead || embedded != 3 || len(wanted) > 0 {
		t.Errorf("%d pairs published, %d embedded, %d set aside; for no one: %q", published, embedded, dead, wanted)
	}
}

// awaitFinalSeal waits until a lane has ended with a final seal.
func awaitFinalSeal(t *testing.T, log *stream.Log, p *process, topic schemas.Topic, lane int) {
	t.Helper()
	r := log.OpenReader(topic, lane, stream.Position{}, stream.ReaderOptions{})
	defer r.Close()
	for {
		rec, err := r.Next(t.Context())
		if err != nil {
			t.Fatalf("waiting for the end of %s, lane %d: %v\n%s", topic, lane, err, p.log)
		}
		if seal, ok := stream.As[*schemas.Seal](rec); ok && seal.Final {
			return
		}
	}
}

// countWithoutSeals counts records of a lane. It leaves out seals, and the refusals in the places of pairs set aside.
func countWithoutSeals(t *testing.T, log *stream.Log, topic schemas.Topic, lane int) (n int) {
	t.Helper()
	for rec, err := range log.Records(t.Context(), topic, lane, stream.Position{}, -1) {
		must.Do(t, err)
		if rec.Schema != schemas.SchemaSeal && rec.Schema != schemas.SchemaRefusal {
			n++
		}
	}
	return n
}

// valueAt returns the value of the pair at an offset.
func valueAt(t *testing.T, log *stream.Log, lane int, offset int64) []byte {
	t.Helper()
	for rec, err := range log.Records(t.Context(), schemas.Pairs, lane, stream.Position{Offset: offset}, offset+1) {
		must.Do(t, err)
		return rec.Value
	}
	return nil
}
