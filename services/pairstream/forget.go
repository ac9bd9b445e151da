package main

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/crawl/forget"
	"github.com/pairstream/pairstream/internal/crawl/repack"
	"github.com/pairstream/pairstream/internal/crawl/table"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/schemas"
)

// forgetFlags are files with a name a line, "-" for standard input.
type forgetFlags struct {
	urls, images, pairs string
	from                []string // namespaces
	report, eraseCopies bool
}

func newForgetCommand() *cobra.Command {
	var f forgetFlags
	cmd := &cobra.Command{
		Use: "forget", Args: cobra.NoArgs,
		Long: "Publishes tombstones of the images that files name, one a line, and of the pairs that show them. From then on no\n" +
			"pair with these images is embedded, trained on, found by live search or shown in the console. It cannot be undone.\n" +
			"--report lists the records of the log that still contain them, and the checkpoints that were trained on them.\n" +
			"--erase-copies overwrites the smaller copies of their images (REPACK_ROOT) that the log refers to, in places of\n" +
			"BUCKET_ROOTS only.",
	}
	looking(cmd, func(at logCommand) error {
		keys, err := f.keys(at.InOrStdin())
		if err != nil {
			return err
		}
		if len(keys)+len(f.from) == 0 && !f.report && !f.eraseCopies {
			return errors.New("nothing to forget: want --url, --image-sha256 or --pair with a file of names, --from with a namespace, or --report or --erase-copies")
		}
		if err := f.takeOver(at); err != nil {
			return err
		}
		if len(keys) > 0 {
			if err := at.log.EnsureTopics(at.Context(), schemas.Forgotten); err != nil {
				return err
			}
			found, err := forget.Publish(at.Context(), at.log, keys, time.Now())
			if err != nil {
				return err
			}
			fmt.Fprintf(at.OutOrStdout(), "took back %d names, and with them %d images and %d pairs that the log holds\n", found.Asked, found.Images, found.Pairs)
			if err := tellOthers(at); err != nil {
				return err
			}
		}
		if !f.report && !f.eraseCopies {
			return nil
		}
		return f.lookBack(at)
	})
	cmd.Flags().StringVar(&f.urls, "url", "", "file of addresses, one a line; - for standard input")
	cmd.Flags().StringVar(&f.images, "image-sha256", "", "file of SHA-256 sums of image files, in hexadecimal")
	cmd.Flags().StringVar(&f.pairs, "pair", "", "file of pair ids: their images are forgotten, with all captions")
	cmd.Flags().StringArrayVar(&f.from, "from", nil, "another namespace of these brokers, whose tombstones are to apply in this one; \"\" is the namespace without a name")
	cmd.Flags().BoolVar(&f.report, "report", false, "list where the log still contains what was forgotten")
	cmd.Flags().BoolVar(&f.eraseCopies, "erase-copies", false, "overwrite the copies of images that were forgotten")
	return cmd
}

// takeOver forgets the images that other namespaces have forgotten, and all that the log knows to show the same.
func (f *forgetFlags) takeOver(at logCommand) error {
	if len(f.from) == 0 {
		return nil
	}
	there, err := at.log.Namespaces(at.Context())
	if err != nil {
		return err
	}
	for _, namespace := range f.from {
		if !slices.Contains(there, namespace) {
			return fmt.Errorf("--from is %q, want another namespace of these brokers: %q", namespace, there)
		}
	}
	n, err := forget.TakeOver(at.Context(), at.log, f.from, time.Now())
	if err == nil {
		fmt.Fprintf(at.OutOrStdout(), "took over %d tombstones of other namespaces\n", n)
	}
	return err
}

// tellOthers names the namespaces that know nothing of the tombstones here. Their operator decides.
func tellOthers(at logCommand) error {
	others, err := at.log.Namespaces(at.Context())
	if err != nil {
		return err
	}
	for _, namespace := range others {
		fmt.Fprintf(at.OutOrStdout(), "NAMESPACE=%s may hold it too: NAMESPACE=%s pairstream forget --from %q takes it back there\n", namespace, namespace, at.log.Config().Namespace)
	}
	return nil
}

// lookBack erases copies of forgotten images, and reports where they are.
func (f *forgetFlags) lookBack(at logCommand) error {
	set, err := forget.Open(at.Context(), at.log)
	if err != nil {
		return err
	}
	remains, err := set.Report(at.Context())
	if err != nil {
		return err
	}
	if f.eraseCopies {
		s, err := rundir.SettingsIn[rundir.Roots](at.dir)
		if err != nil {
			return err
		}
		erased, err := repack.Erase(at.Context(), s.Roots, remains.Copies)
		fmt.Fprintf(at.OutOrStdout(), "erased %d copies of %d that records lead to; the others were erased before, or are gone\n", erased, len(remains.Copies))
		if err != nil {
			return err
		}
	}
	for _, t := range remains.Newer {
		fmt.Fprintf(at.OutOrStdout(), "%-12s lane %d: %d records of a newer version, the last at offset %d: ask `pairstream forget` of that version about them\n",
			t.Topic, t.Lane, t.Count, t.Last)
	}
	if !f.report {
		return nil
	}
	return printRemains(at.OutOrStdout(), remains)
}

func (f *forgetFlags) keys(in io.Reader) ([]forget.Key, error) {
	var keys []forget.Key
	for _, file := range []struct {
		flag, path string
		parse      func(string) (forget.Key, error)
	}{
		{"url", f.urls, func(line string) (forget.Key, error) { return forget.SourceKey(line), nil }},
		{"image-sha256", f.images, imageKey},
		{"pair", f.pairs, func(line string) (forget.Key, error) { return forget.ParseKey(forget.Pair + "/" + line) }},
	} {
		if file.path == "" {
			continue
		}
		lines, err := readLines(file.path, in)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", file.flag, err)
		}
		for number, line := range lines {
			if line == "" {
				continue
			}
			key, err := file.parse(line)
			if err != nil {
				return nil, fmt.Errorf("--%s: line %d of %s: %w", file.flag, number+1, file.path, err)
			}
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// imageKey takes a whole SHA-256, or the image id, which is its first half.
func imageKey(line string) (forget.Key, error) {
	raw, err := hex.DecodeString(line)
	if err != nil || len(raw) != 32 && len(raw) != 16 {
		return forget.Key{}, fmt.Errorf("%.80q: want 64 hexadecimal digits, or the 32 of an image id", line)
	}
	return forget.Key{Kind: forget.Image, ID: [16]byte(raw[:16])}, nil
}

func readLines(path string, in io.Reader) ([]string, error) {
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	plain, err := table.SkipMark(in)
	if err != nil {
		return nil, err
	}
	var lines []string
	scanner := bufio.NewScanner(plain)
	for scanner.Scan() {
		lines = append(lines, strings.TrimSpace(scanner.Text()))
	}
	return lines, scanner.Err()
}

func printRemains(out io.Writer, r *forget.Remains) error {
	fmt.Fprintf(out, "%d tombstones\n", r.Tombstones)
	if len(r.Records) == 0 {
		fmt.Fprintln(out, "the log holds nothing that was forgotten")
	}
	for _, t := range r.Records {
		fmt.Fprintf(out, "%-12s lane %d: %d records, the last at offset %d of %s: gone when the topic's retention has passed it\n",
			t.Topic, t.Lane, t.Count, t.Last, t.Newest.UTC().Format(time.RFC3339))
	}
	for _, c := range r.Copies {
		fmt.Fprintf(out, "copy         %d bytes at %d of %s: --erase-copies overwrites them\n", c.Size, c.Offset, c.URI)
	}
	if r.FirstStep < 0 {
		_, err := fmt.Fprintln(out, "no step of training that the log knows has seen it")
		return err
	}
	fmt.Fprintf(out, "training has seen it from step %d on\n", r.FirstStep)
	for _, c := range r.Checkpoints {
		fmt.Fprintf(out, "checkpoint   %s was trained on it\n", c)
	}
	return nil
}
