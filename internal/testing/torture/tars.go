package torture

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Tar is a hostile tar.
type Tar struct {
	Name  string
	Build func() []byte
}

// Tars lists the tars. Some are cut, and some are not tars at all.
func Tars() []Tar {
	many := func(n int, caption func(i int) any) func() []byte {
		return func() []byte {
			list := make([]any, n)
			for i := range list {
				list[i] = caption(i)
			}
			text, _ := json.Marshal(map[string]any{"captions": list}) // these values can be written
			return pack(entry{name: "a.png", data: pixel}, entry{name: "a.json", data: text})
		}
	}
	return append(append(oddTars(), furtherTars()...), []Tar{
		{"110,000 captions of one image", many(110_000, func(i int) any { return fmt.Sprint(i) })},
		{"300,000 captions that are no text", many(300_000, func(int) any { return 1 })},
		{"captions nested 100,000 deep", func() []byte {
			return pack(entry{name: "a.png", data: pixel}, entry{name: "a.json", data: []byte(`{"captions":` + strings.Repeat("[", 100_000))})
		}},
		{"100,000 captions without image", func() []byte { return repeat(100_000, "%06d.txt", []byte("x")) }},
		{"100,000 images of one name", func() []byte { return repeat(100_000, "a.png", pixel) }},
		{"200 names of a megabyte", func() []byte {
			var all []entry
			for i := range 200 {
				all = append(all, entry{name: fmt.Sprintf("%s%d.png", strings.Repeat("n", 1000<<10), i), data: pixel})
			}
			return pack(all...)
		}},
		{"a name of five kilobytes, and its caption", func() []byte {
			name := strings.Repeat("n/", 2500)
			return pack(entry{name: name + "a.png", data: pixel}, entry{name: name + "a.txt", data: []byte("good")})
		}},
		{"64 MB of zeros", func() []byte { return make([]byte, 64<<20) }},
		{"64 MB of noise", func() []byte { return noise(64 << 20) }},
		{"an image of 8 exabytes", func() []byte { return declare(1<<63 - 1) }},
		{"a caption of 60 GB", func() []byte { return declare(60 << 30) }},
		{"an image of 40 MB", func() []byte {
			return pack(entry{name: "a.png", data: make([]byte, 40<<20)}, entry{name: "a.txt", data: []byte("x")})
		}},
		{"links, devices and pipes", func() []byte {
			var all []entry
			for i := range 5000 {
				all = append(all, entry{name: fmt.Sprintf("%d.png", i), kind: []byte{tar.TypeSymlink, tar.TypeLink, tar.TypeChar, tar.TypeFifo}[i%4]})
			}
			return pack(all...)
		}},
		{"damaged headers", func() []byte {
			raw := repeat(20_000, "%06d.txt", []byte("x"))
			for at := 0; at < len(raw); at += 2048 {
				raw[at+150] ^= 1
			}
			return raw
		}},
	}...)
}

// pixel is a PNG of one pixel.
var pixel = bomb{w: 1, h: 1, depth: 8}.encode()

type entry struct {
	name string
	data []byte
	kind byte
}

// pack writes entries as a tar. It leaves out what cannot be written, which the tests would see.
func pack(entries ...entry) []byte {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Mode: 0o644, Size: int64(len(e.data)), ModTime: time.Unix(0, 0)}
		if e.kind != 0 {
			h.Linkname = "/etc/passwd"
		} else {
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(h); err == nil {
			_, _ = w.Write(e.data) // memory never fails
		}
	}
	_ = w.Close()
	return buf.Bytes()
}

func repeat(n int, format string, data []byte) []byte {
	all := make([]entry, n)
	for i := range all {
		name := format
		if strings.Contains(format, "%") {
			name = fmt.Sprintf(format, i)
		}
		all[i] = entry{name: name, data: data}
	}
	return pack(all...)
}

// declare returns a tar of one entry that says it has size bytes, and has none.
func declare(size int64) []byte {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	_ = w.WriteHeader(&tar.Header{Name: "a.txt", Typeflag: tar.TypeReg, Size: size, Format: tar.FormatGNU}) // memory never fails
	return buf.Bytes()
}

func noise(n int) []byte {
	r := rand.NewChaCha8([32]byte{1})
	b := make([]byte, n)
	_, _ = r.Read(b) // never fails
	return b
}
