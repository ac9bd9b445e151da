package shard_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func TestScanFindsExamples(t *testing.T) {
	im, im2 := picture(t, 1), picture(t, 2)
	for _, c := range []struct {
		name    string
		members []member
		want    string
	}{
		{"image first", []member{{name: "a.jpg", data: im}, {name: "a.txt", data: "one"}}, "a: one"},
		{"text first", []member{{name: "a.txt", data: "one"}, {name: "a.png", data: im}}, "a: one"},
		{"json between", []member{{name: "a.txt", data: "one"}, {name: "a.webp", data: im}, {name: "a.json", data: `{"caption":"two"}`}}, "a: one|two"},
		{"text goes before json", []member{{name: "a.json", data: `{"captions":["x","y"],"caption":"w"}`}, {name: "a.txt", data: "v"}, {name: "a.jpeg", data: im}}, "a: v|w|x|y"},
		{"the same caption is one", []member{{name: "a.jpg", data: im}, {name: "a.txt", data: " one\n"}, {name: "a.json", data: `{"caption":"one","captions":["one","two","two"]}`}}, "a: one|two"},
		{"null is no caption", []member{{name: "a.jpg", data: im}, {name: "a.txt", data: "one"}, {name: "a.json", data: `{"caption":null,"captions":null}`}}, "a: one"},
		{"escapes", []member{{name: "a.jpg", data: im}, {name: "a.json", data: `{"caption":"caf\u00e9 \"x\""}`}}, `a: café "x"`},
		{"upper case", []member{{name: "A.JPG", data: im}, {name: "A.Txt", data: "one"}}, "A: one"},
		{"folders", []member{{name: "x/", kind: tar.TypeDir}, {name: "x/a.jpg", data: im}, {name: "x/a.txt", data: "one"}, {name: "./y/a.jpg", data: im2}, {name: "./y/a.txt", data: "two"}}, "x/a: one; y/a: two"},
		{"other files", []member{{name: "a.jpg", data: im}, {name: "a.cls", data: "3"}, {name: "a.txt", data: "one"}, {name: "README", data: "x"}, {name: ".hidden.jpg", data: "x"}, {name: "a.seg.png", data: "x"}}, "a: one"},
		{"two keys", []member{{name: "a.jpg", data: im}, {name: "a.txt", data: "one"}, {name: "b.txt", data: "two"}, {name: "b.jpg", data: im2}}, "a: one; b: two"},
		{"a long name", []member{{name: strings.Repeat("d/", 200) + "a.jpg", data: im}, {name: strings.Repeat("d/", 200) + "a.txt", data: "one"}}, strings.Repeat("d/", 200) + "a: one"},
		{"a file that is no image", []member{{name: "a.jpg", data: "<html>"}, {name: "a.txt", data: "one"}}, "a: one"},
		{"a huge image declared", []member{{name: "a.png", data: hugePNG()}, {name: "a.txt", data: "one"}}, "a: one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := scan(t, buildTar(t, c.members...))
			if got := f.captions(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if len(f.problems) > 0 {
				t.Errorf("problems: %v", f.problems)
			}
			if f.totals.Entries != len(c.members) || f.totals.Tars != 1 {
				t.Errorf("totals %+v, want %d entries", f.totals, len(c.members))
			}
		})
	}
}

// problemCases are tars with something wrong; each also holds a good example, which must go through.
func problemCases(t testing.TB) []problemCase {
	im, tooLong := picture(t, 1), strings.Repeat("x", schemas.MaxCaptionBytes+1)
	return []problemCase{
		{"empty caption", []member{{name: "a.jpg", data: im}, {name: "a.txt", data: " \n"}}, "caption_empty"},
		{"empty caption among good ones", []member{{name: "a.jpg", data: im}, {name: "a.json", data: `{"captions":["one",""]}`}}, "caption_empty"},
		{"text not UTF-8", []member{{name: "a.jpg", data: im}, {name: "a.txt", data: "caf\xe9"}}, "caption_encoding"},
		{"json not UTF-8", []member{{name: "a.jpg", data: im}, {name: "a.json", data: "{\"captions\":[\"caf\xe9\"]}"}}, "caption_encoding"},
		{"caption too long", []member{{name: "a.jpg", data: im}, {name: "a.txt", data: tooLong}}, "caption_long"},
		{"not JSON", []member{{name: "a.jpg", data: im}, {name: "a.json", data: `{"caption":`}}, "caption_json"},
		{"caption is a number", []member{{name: "a.jpg", data: im}, {name: "a.json", data: `{"caption":7}`}}, "caption_json"},
		{"captions is an object", []member{{name: "a.jpg", data: im}, {name: "a.json", data: `{"captions":{}}`}}, "caption_json"},
		{"no caption", []member{{name: "a.jpg", data: im}}, "caption_missing"},
		{"json without caption", []member{{name: "a.jpg", data: im}, {name: "a.json", data: `{"url":"x"}`}}, "caption_missing"},
		{"no image", []member{{name: "a.txt", data: "one"}}, "image_missing"},
		{"no image for three captions", []member{{name: "a.json", data: `{"captions":["x","y","z"]}`}}, "image_missing image_missing image_missing"},
		{"image of no bytes", []member{{name: "a.jpg"}, {name: "a.txt", data: "one"}}, "image_empty"},
		{"image of no bytes without caption", []member{{name: "a.jpg"}}, "image_empty"},
		{"two images", []member{{name: "a.jpg", data: im}, {name: "a.png", data: im}}, "entry_duplicate caption_missing"},
		{"two texts", []member{{name: "a.txt", data: ""}, {name: "a.txt", data: "two"}, {name: "a.jpg", data: im}}, "entry_duplicate caption_empty"},
		{"too large an image", []member{{name: "a.txt", data: "one"}, {name: "a.jpg", data: strings.Repeat("x", schemas.MaxImageBytes+1)}}, "entry_oversize"},
		{"too large an image without caption", []member{{name: "a.jpg", data: strings.Repeat("x", schemas.MaxImageBytes+1)}}, "entry_oversize"},
		{"too large a json", []member{{name: "a.jpg", data: im}, {name: "a.json", data: strings.Repeat(" ", 1<<20+1)}}, "entry_oversize"},
		{"absolute name", []member{{name: "/etc/a.jpg", data: im}}, "entry_name"},
		{"name with ..", []member{{name: "x/../../a.jpg", data: im}}, "entry_name"},
		{"name with backslashes", []member{{name: `..\a.jpg`, data: im}}, "entry_name"},
		{"symbolic link", []member{{name: "a.jpg", kind: tar.TypeSymlink}}, "entry_type"},
		{"hard link", []member{{name: "a.jpg", kind: tar.TypeLink}}, "entry_type"},
		{"device", []member{{name: "a.jpg", kind: tar.TypeChar}}, "entry_type"},
		{"pipe", []member{{name: "a.jpg", kind: tar.TypeFifo}}, "entry_type"},
		{"key torn apart", []member{{name: "a.jpg", data: im}, {name: "b.txt", data: "two"}, {name: "a.txt", data: "one"}}, "caption_missing image_missing image_missing"},
	}
}

type problemCase struct {
	name    string
	members []member
	want    string
}

func TestScanReportsProblemsAndGoesOn(t *testing.T) {
	good := []member{{name: "good.jpg", data: picture(t, 7)}, {name: "good.txt", data: "good"}}
	for _, c := range problemCases(t) {
		t.Run(c.name, func(t *testing.T) {
			f := scan(t, buildTar(t, append(slices.Clone(c.members), good...)...))
			if got := f.reasons(); got != c.want {
				t.Errorf("reasons %q, want %q: %v", got, c.want, f.problems)
			}
			if !strings.HasSuffix(f.captions(), "good: good") {
				t.Errorf("examples %q: the good one is missing", f.captions())
			}
			for _, p := range f.problems {
				wantRefused(t, p)
			}
		})
	}
}

// wantRefused checks that no reader of pairs takes a problem's record for a pair.
func wantRefused(t testing.TB, p shard.Problem) {
	t.Helper()
	value := must.Get(p.Record())(t)
	record, err := schemas.Unmarshal(schemas.SchemaPair, value)
	if err == nil && p.Reason == shard.ReasonCut {
		pair := record.(*schemas.Pair)
		if pair.ID != p.ID() {
			t.Errorf("the record of %v has id %s, the problem %s", p, pair.ID, p.ID())
		}
		root := p.URI[:strings.LastIndexByte(p.URI, '/')]
		b := must.Get(shard.OpenBucket(context.Background(), []string{root}, nil))(t)
		defer b.Close()
		if _, err := b.ReadRange(context.Background(), *pair.Image, pair.ImageID); !errors.Is(err, shard.ErrTruncated) {
			t.Errorf("reading the image of %v: %v, want %v", p, err, shard.ErrTruncated)
		}
		return
	}
	if !errors.Is(err, schemas.ErrInvalid) {
		t.Errorf("the record of %v decodes with %v, want %v", p, err, schemas.ErrInvalid)
	}
}

// TestScanOfATarCutAnywhere cuts a tar at many places. Whatever is left, each image whose header is there is an example
// or a problem, and never both; the examples before the cut go through; and the cut itself is noticed.
func TestScanOfATarCutAnywhere(t *testing.T) {
	var members []member
	for i := range 4 {
		key := fmt.Sprintf("%02d", i)
		im := picture(t, i) + strings.Repeat("p", 700*i)
		members = append(members, member{name: key + ".jpg", data: im}, member{name: key + ".txt", data: "caption " + key})
		slices.SortStableFunc(members[2*i:], func(a, b member) int { return (i%2*2 - 1) * strings.Compare(a.name, b.name) })
	}
	whole := buildTar(t, members...)
	headers := imageHeaders(t, whole)
	content := len(bytes.TrimRight(whole, "\x00"))
	for cut := 0; cut <= len(whole); cut += 64 {
		f := scan(t, whole[:cut])
		images := map[int64]int{}
		for _, ex := range f.examples {
			images[ex.Image.Offset]++
		}
		for _, p := range f.problems {
			wantRefused(t, p)
			if p.Image != nil {
				images[p.Image.Offset]++
			}
		}
		for _, at := range headers {
			switch present := at <= int64(cut); {
			case present && images[at] != 1:
				t.Errorf("cut at %d: the image at %d was given %d times", cut, at, images[at])
			case !present && images[at] != 0:
				t.Errorf("cut at %d: the image at %d is not there, but was given", cut, at)
			}
		}
		if cut < content && len(f.problems) == 0 {
			t.Errorf("cut at %d of %d: nothing was noticed", cut, content)
		}
		if cut == len(whole) && (len(f.problems) > 0 || len(f.examples) != 4) {
			t.Errorf("whole: %d examples, problems %v", len(f.examples), f.problems)
		}
	}
}

// imageHeaders lists where the images of a tar begin, by a scan that is known to be complete.
func imageHeaders(t testing.TB, raw []byte) []int64 {
	var out []int64
	for _, ex := range scan(t, raw).examples {
		out = append(out, ex.Image.Offset)
	}
	return out
}

func TestScanGoesOnBehindADamagedHeader(t *testing.T) {
	var members []member
	for i := range 5 {
		key := fmt.Sprintf("%02d", i)
		members = append(members, member{name: key + ".jpg", data: picture(t, i)}, member{name: key + ".txt", data: key})
	}
	raw := buildTar(t, members...)
	header := int(imageHeaders(t, raw)[2]) - 512
	for name, damage := range map[string]func(){
		"checksum": func() { raw[header+3] ^= 0xff },
		"zeros":    func() { clear(raw[header : header+512]) },
		"size":     func() { copy(raw[header+124:], "zzzzzzzz") },
	} {
		raw = buildTar(t, members...)
		damage()
		f := scan(t, raw)
		// Lost are the image, with it the text behind it, and nothing else.
		if got, want := f.captions(), "00: 00; 01: 01; 03: 03; 04: 04"; got != want {
			t.Errorf("%s: examples %q, want %q", name, got, want)
		}
		if got, want := f.reasons(), "tar_header image_missing"; got != want {
			t.Errorf("%s: problems %q, want %q", name, got, want)
		}
		if len(f.problems) > 0 && f.problems[0].Offset != int64(header) {
			t.Errorf("%s: reported at %d, want %d", name, f.problems[0].Offset, header)
		}
	}
}

// TestScanOfOtherWriters reads tars that Python's tarfile and GNU tar wrote, with long names and sparse files.
func TestScanOfOtherWriters(t *testing.T) {
	for file, c := range map[string]struct{ captions, reasons string }{
		"ustar.tar":      {"000: six squares|red, green and blue", "caption_encoding"},
		"gnu.tar":        {strings.Repeat("d", 150) + "/a: a long name", "entry_type"},
		"pax.tar":        {strings.Repeat("ü", 120) + ": grün", ""},
		"sparse_gnu.tar": {"", "entry_type"},
		"sparse_pax.tar": {"", "entry_type"},
	} {
		f := scanFile(t, filepath.Join("testdata", "tars", file))
		if f.captions() != c.captions || f.reasons() != c.reasons {
			t.Errorf("%s: examples %q, problems %v", file, f.captions(), f.problems)
		}
	}
}

func TestScanOfWhatIsNoTar(t *testing.T) {
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"nothing":      {nil, "tar_no_end"},
		"text":         {[]byte("hello"), "tar_cut"},
		"long text":    {bytes.Repeat([]byte("hello "), 5000), "tar_header"},
		"gzip":         {append([]byte("\x1f\x8b\x08"), bytes.Repeat([]byte{7}, 2000)...), "tar_header"},
		"end marker":   {make([]byte, 1024), ""},
		"one block":    {make([]byte, 512), ""},
		"half a block": {make([]byte, 100), "tar_cut"},
	} {
		if f := scan(t, c.raw); f.reasons() != c.want || len(f.examples) > 0 {
			t.Errorf("%s: problems %q and %d examples, want %q", name, f.reasons(), len(f.examples), c.want)
		}
	}
}

// TestScanBelievesNoSize holds the promise that memory follows the bytes that are there, not those declared.
func TestScanBelievesNoSize(t *testing.T) {
	for _, ext := range []string{"jpg", "txt", "json", "mp4"} {
		for _, size := range []uint64{schemas.MaxImageBytes, 1 << 40, 1<<63 - 1} {
			raw := buildTar(t, member{name: "a." + ext, data: "x"})[:1024]
			raw[124] = 0x80 // the size as a binary number
			binary.BigEndian.PutUint64(raw[128:], size)
			sealHeader(raw)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			f := scan(t, raw)
			runtime.ReadMemStats(&after)
			if len(f.problems) != 1 || len(f.examples) > 0 {
				t.Errorf("%s of %d bytes: %d examples, problems %v", ext, size, len(f.examples), f.problems)
			}
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
				t.Errorf("%s of %d bytes: allocated %d", ext, size, grown)
			}
		}
	}
}

// sealHeader puts the right checksum on a changed header block.
func sealHeader(block []byte) {
	copy(block[148:156], "        ")
	sum := 0
	for _, b := range block[:512] {
		sum += int(b)
	}
	copy(block[148:156], fmt.Sprintf("%06o\x00 ", sum))
}

func TestScanStopsWhenToldTo(t *testing.T) {
	path := writeFile(t, t.TempDir(), "a.tar", buildTar(t, member{name: "a.jpg", data: picture(t, 1)}, member{name: "a.txt", data: "one"}, member{name: "b.txt", data: "x"}))
	stop := errors.New("stop")
	for name, v := range map[string]shard.Visitor{
		"example": {Example: func(shard.Example) error { return stop }, Problem: func(shard.Problem) error { return nil }},
		"problem": {Example: func(shard.Example) error { return nil }, Problem: func(shard.Problem) error { return stop }},
	} {
		if _, err := shard.Scan(context.Background(), []string{path}, v); !errors.Is(err, stop) {
			t.Errorf("%s: %v, want %v", name, err, stop)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := shard.Scan(ctx, []string{path}, shard.Visitor{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestTarsAndRoots(t *testing.T) {
	base := t.TempDir()
	real := must.Get(filepath.EvalSymlinks(base))(t)
	for _, d := range []string{"data/sub", "data-2", "elsewhere", "none"} {
		must.Do(t, os.MkdirAll(filepath.Join(real, d), 0o700))
	}
	empty := buildTar(t)
	writeFile(t, filepath.Join(real, "data"), "b.tar", empty)
	writeFile(t, filepath.Join(real, "data"), "a.TAR", empty)
	writeFile(t, filepath.Join(real, "data"), "note.txt", nil)
	writeFile(t, filepath.Join(real, "data/sub"), "c d.tar", empty)
	writeFile(t, filepath.Join(real, "data-2"), "noext", empty)
	writeFile(t, filepath.Join(real, "elsewhere"), "e.tar", empty)
	for from, to := range map[string]string{"data/z.tar": "elsewhere/e.tar", "link": "data"} {
		must.Do(t, os.Symlink(filepath.Join(real, to), filepath.Join(real, from)))
	}
	in := func(names ...string) (out []string) {
		for _, n := range names {
			out = append(out, filepath.Join(real, n))
		}
		return out
	}
	paths := in("link", "data-2/noext")
	got, err := shard.Tars(paths)
	want := in("data/a.TAR", "data/b.tar", "data/sub/c d.tar", "elsewhere/e.tar", "data-2/noext")
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("tars %v (%v), want %v", got, err, want)
	}
	roots, err := shard.Roots(paths)
	wantRoots := []string{shard.FileURI(in("data")[0]), shard.FileURI(in("data-2")[0]), shard.FileURI(in("elsewhere")[0])}
	if err != nil || !slices.Equal(roots, wantRoots) {
		t.Errorf("roots %v (%v), want %v", roots, err, wantRoots)
	}
	for _, bad := range in("none", "missing", "data/note") {
		if _, err := shard.Tars([]string{bad}); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: error %v, want one that names it", bad, err)
		}
	}
}

// TestScanPassesOverFilesThatCannotBeRead: a crawl's folder has links to nowhere, pipes and folders of somebody else.
func TestScanPassesOverFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "good.tar", buildTar(t, member{name: "a.jpg", data: picture(t, 1)}, member{name: "a.txt", data: "one"}))
	must.Do(t, errors.Join(
		os.Symlink("nowhere", filepath.Join(dir, "dangling.tar")), os.Symlink("loop.tar", filepath.Join(dir, "loop.tar")),
		syscall.Mkfifo(filepath.Join(dir, "pipe.tar"), 0o600), os.Mkdir(filepath.Join(dir, "locked"), 0),
	))
	writeFile(t, dir, "zz.tar", buildTar(t, member{name: "z.jpg", data: picture(t, 2)}, member{name: "z.txt", data: "two"}))
	want := 3
	if os.Geteuid() != 0 { // root reads the locked folder
		want++
	}
	examples := 0
	totals, err := shard.Scan(t.Context(), []string{dir}, shard.Visitor{
		Example: func(shard.Example) error { examples++; return nil },
		Problem: func(p shard.Problem) error {
			if p.URI == "" || p.Detail == "" {
				t.Errorf("problem %+v", p)
			}
			wantRefused(t, p)
			return nil
		},
	})
	if err != nil || examples != 2 || totals.Tars != 2 || totals.Problems[shard.ReasonFile] != want {
		t.Errorf("%d examples, totals %+v, %v; want 2 examples and %d files that cannot be read", examples, totals, err, want)
	}
	if roots, err := shard.Roots([]string{dir}); err != nil || len(roots) != 1 {
		t.Errorf("roots %v, %v", roots, err)
	}
	if _, err := shard.Scan(t.Context(), []string{filepath.Join(dir, "dangling.tar")}, shard.Visitor{}); err == nil {
		t.Error("a file that the command line names, and that is not there, is no error")
	}
}

// TestScanBoundsWhatATarGives holds that a few bytes of a tar do not become many on the log.
func TestScanBoundsWhatATarGives(t *testing.T) {
	captions := func(n int, text string) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(text, i))
		}
		return `{"captions":[` + strings.Join(list, ",") + `]}`
	}
	long := strings.Repeat("n", 5000)
	var broken []member
	for i := range shard.MaxProblems + 7 {
		broken = append(broken, member{name: fmt.Sprintf("%06d.txt", i), data: "x"})
	}
	for _, c := range []struct {
		name            string
		members         []member
		pairs, problems int // records
		reason          shard.Reason
		say             string
	}{
		{"as many captions as allowed", []member{{name: "a.jpg", data: picture(t, 1)}, {name: "a.json", data: captions(shard.MaxCaptions, `"%d"`)}}, shard.MaxCaptions, 0, "", ""},
		{"too many captions", []member{{name: "a.jpg", data: picture(t, 1)}, {name: "a.json", data: captions(100_000, `"%d"`)}}, shard.MaxCaptions, 1, shard.ReasonMany, "100000 captions"},
		{"too many bad captions", []member{{name: "a.jpg", data: picture(t, 1)}, {name: "a.json", data: captions(100_000, `%d`)}}, 0, 2, shard.ReasonMany, "100000 captions"},
		{"too many problems", broken, 0, shard.MaxProblems + 1, shard.ReasonMore, "7 more problems"},
		{"long names", []member{{name: long + ".jpg", data: picture(t, 1)}, {name: long + ".txt", data: "good"}, {name: long + ".png", data: "second"}}, 1, 1, shard.ReasonDuplicate, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := buildTar(t, c.members...)
			pairs, problems, bytes, said := 0, 0, 0, ""
			totals, err := shard.Scan(t.Context(), []string{writeFile(t, t.TempDir(), "a.tar", raw)}, shard.Visitor{
				Example: func(ex shard.Example) error {
					for _, p := range shard.Pairs(ex) {
						value, err := schemas.Marshal(p)
						if err != nil {
							return err
						}
						pairs, bytes = pairs+1, bytes+len(value)
					}
					return nil
				},
				Problem: func(p shard.Problem) error {
					value, err := p.Record()
					problems, bytes = problems+1, bytes+len(value)
					if said == "" && p.Reason == c.reason {
						said = p.Detail
					}
					return err
				},
			})
			if err != nil || pairs != c.pairs || problems != c.problems || !strings.HasPrefix(said, c.say) || c.reason != "" && totals.Problems[c.reason] == 0 {
				t.Errorf("%d pairs, %d problems, said %q, totals %+v, %v; want %d, %d, %q", pairs, problems, said, totals, err, c.pairs, c.problems, c.say)
			}
			if bytes > 20*len(raw) {
				t.Errorf("%d bytes of a tar became %d", len(raw), bytes)
			}
		})
	}
}

// TestProblemsSayWhatTheyAre reads the key of a problem's record that no pair has. Dead letters show it.
func TestProblemsSayWhatTheyAre(t *testing.T) {
	p := shard.Problem{URI: "file:///a.tar", Offset: 512, Entry: "a.jpg", Reason: shard.ReasonNoText, Detail: "the caption is empty", Caption: "x"}
	value := must.Get(p.Record())(t)
	var got struct {
		Problem string `msgpack:"problem"`
		Caption string `msgpack:"caption"`
		Source  string `msgpack:"source"`
	}
	must.Do(t, msgpack.Unmarshal(value, &got))
	if got.Problem != string(shard.ReasonNoText)+": the caption is empty" || got.Caption != "x" || got.Source != "file:///a.tar#512:a.jpg" {
		t.Errorf("got %+v", got)
	}
}
