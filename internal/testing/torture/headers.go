package torture

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// oddTars lists tars whose headers say strange things. Tools that only follow the format's rules do not write them.
func oddTars() []Tar { return append(paxTars(), otherTars()...) }

// sound is a good tar.
func sound() []byte {
	return pack(entry{name: "good.png", data: pixel}, entry{name: "good.txt", data: []byte("a good caption")})
}

func described(records string) []byte { return special('x', "pax", []byte(records)) }

func paxTars() []Tar {
	return []Tar{
		{"20,000 PAX records before an entry", func() []byte {
			var records strings.Builder
			for i := range 20_000 {
				records.WriteString(pax(fmt.Sprintf("vendor.%d", i), "x"))
			}
			return append(described(records.String()), sound()...)
		}},
		{"a PAX record of 60 MB", func() []byte { return append(described(pax("comment", strings.Repeat("c", 60<<20))), sound()...) }},
		{"30,000 PAX headers in a row", func() []byte { return append(bytes.Repeat(described(pax("comment", "x")), 30_000), sound()...) }},
		{"30,000 global PAX headers", func() []byte {
			return append(bytes.Repeat(special('g', "pax", []byte(pax("comment", "x"))), 30_000), sound()...)
		}},
		{"a PAX size of -1", func() []byte { return append(described(pax("size", "-1")), sound()...) }},
		{"a PAX size of 8 EB", func() []byte { return append(described(pax("size", "9223372036854775807")), sound()...) }},
		{"a PAX size of more", func() []byte { return append(described(pax("size", "99999999999999999999")), sound()...) }},
		{"a PAX path without end", func() []byte { return append(described("999999999 path=x\n"), sound()...) }},
		{"a PAX path with a zero", func() []byte { return append(described(pax("path", "a\x00b.png")), sound()...) }},
		{"a PAX time of -10^30", func() []byte { return append(described(pax("mtime", "-1000000000000000000000000000000")), sound()...) }},
	}
}

func otherTars() []Tar {
	return []Tar{
		{"20,000 long names before an entry", func() []byte {
			return append(bytes.Repeat(special('L', "././@LongLink", []byte("x.png\x00")), 20_000), sound()...)
		}},
		{"a long name of 60 MB", func() []byte {
			return append(special('L', "././@LongLink", bytes.Repeat([]byte("n"), 60<<20)), sound()...)
		}},
		{"long names alone", func() []byte { return bytes.Repeat(special('L', "././@LongLink", []byte("x.png\x00")), 20_000) }},
		{"a sparse file of 8 EB", func() []byte {
			return append(described(pax("GNU.sparse.major", "1")+pax("GNU.sparse.minor", "0")+pax("GNU.sparse.name", "a.png")+pax("GNU.sparse.realsize", "9223372036854775807")), sound()...)
		}},
		{"a sparse map of 100,000 parts", func() []byte {
			parts := strings.TrimSuffix(strings.Repeat("0,0,", 100_000), ",")
			return append(described(pax("GNU.sparse.numblocks", "100000")+pax("GNU.sparse.map", parts)), sound()...)
		}},
		{"an old sparse header", func() []byte { return append(special('S', "a.png", pixel), sound()...) }},
		{"a negative size", func() []byte {
			h := header512("a.png", '0', 0)
			copy(h[124:], "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe\x00")
			return append(summed(h), sound()...)
		}},
		{"a size of no digits", func() []byte {
			h := header512("a.png", '0', 0)
			copy(h[124:], "0x00000zzzz\x00")
			return append(summed(h), sound()...)
		}},
		{"100,000 pairs of one name", func() []byte { return bytes.Repeat(withoutEnd(sound()), 20_000) }},
		{"1,000 tars behind one another", func() []byte { return bytes.Repeat(sound(), 1000) }},
		{"a tar in a tar", func() []byte {
			return pack(entry{name: "a.tar", data: sound()}, entry{name: "a.png", data: sound()}, entry{name: "a.txt", data: []byte("x")})
		}},
		{"names of zeros, controls and backslashes", func() []byte {
			var all []entry
			for i, name := range []string{"\x01\x02%d.png", "..\\..\\%d.png", "C:\\%d.png", "%d.png/../../x.png", "\xff\xfe%d.png", "%d\u202egnp.png", " %d .png", ".%d.png", "-%d.png"} {
				all = append(all, entry{name: fmt.Sprintf(name, i), data: pixel})
			}
			return pack(all...)
		}},
		{"compressed", func() []byte { return gzipped(func(w io.Writer) { zeros(w, 64<<20) }) }},
		{"a header of every type", func() []byte {
			var out []byte
			for kind := range 256 {
				out = append(out, header512("a.png", byte(kind), 0)...)
			}
			return append(out, sound()...)
		}},
	}
}

// pax encodes a record: its length, which counts its own digits, a key and a value.
func pax(key, value string) string {
	rest := fmt.Sprintf(" %s=%s\n", key, value)
	n := len(rest)
	for n != len(rest)+len(fmt.Sprint(n)) {
		n = len(rest) + len(fmt.Sprint(n))
	}
	return fmt.Sprint(n) + rest
}

// special is a header with contents that describe the next one.
func special(kind byte, name string, contents []byte) []byte {
	b := append(header512(name, kind, len(contents)), contents...)
	return append(b, make([]byte, (512-len(contents)%512)%512)...)
}

// header512 is a header with a correct checksum.
func header512(name string, kind byte, size int) []byte {
	h := make([]byte, 512)
	copy(h, name)
	copy(h[100:], "0000644\x00")
	copy(h[124:], fmt.Sprintf("%011o\x00", size))
	copy(h[136:], "00000000000\x00")
	h[156] = kind
	copy(h[257:], "ustar\x0000")
	return summed(h)
}

func summed(h []byte) []byte {
	copy(h[148:], "        ")
	sum := 0
	for _, b := range h {
		sum += int(b)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	return h
}

// withoutEnd cuts the two blocks off that end a tar.
func withoutEnd(b []byte) []byte { return b[:len(b)-1024] }
