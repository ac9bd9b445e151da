package service

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/crawl/forget"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/neighbors/faiss"
	"github.com/pairstream/pairstream/internal/neighbors/segment"
	"github.com/pairstream/pairstream/schemas"
)

// WriteFAISS writes the segments in SEGMENTS_ROOT into a folder, as indexes that FAISS reads. A group LANE/SEQ of a
// model becomes
//
//	MODEL/LANE-SEQ-images.faiss   IndexIVFScalarQuantizer, float16 rows, inner product
//	MODEL/LANE-SEQ-texts.faiss    the same of the captions
//	MODEL/LANE-SEQ-pairs.jsonl    line i is the pair with id i: its id, its position in the group, its image's reference
//
// Vectors are those of 8-bit codes. Forgotten pairs are in no index, and their lines are null. The file of pairs is
// written last. A call replaces the files of an earlier call. It calls wrote for every group.
func WriteFAISS(ctx context.Context, log *stream.Log, s Settings, folder string, wrote func(*segment.Segment)) (err error) {
	place, err := s.openStore(ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, place.Close()) }()
	gone, err := forget.Open(ctx, log)
	if err != nil {
		return err
	}
	var problems []error
	err = place.Each(ctx, func(string) bool { return false }, func(file string, one *segment.Segment, err error) {
		if err == nil {
			err = errors.Join(writeFAISS(ctx, one, filepath.Join(folder, filepath.Base(filepath.Dir(file))), gone.Pair), one.Err(), one.Close())
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("writing %s for FAISS: %w", file, err))
			return
		}
		wrote(one)
	})
	return errors.Join(err, errors.Join(problems...))
}

// writeFAISS writes the files of a segment.
func writeFAISS(ctx context.Context, s *segment.Segment, folder string, gone func(schemas.PairID) bool) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	path := filepath.Join(folder, fmt.Sprintf("%d-%d", s.Group.Lane, s.Group.Seq))
	for m, name := range []string{"images", "texts"} {
		if err := writeIVF(ctx, s, segment.Modality(m), fmt.Sprintf("%s-%s.faiss", path, name), gone); err != nil {
			return err
		}
	}
	return atomicfile.Write(path+"-pairs.jsonl", 0o644, func(w io.Writer) error { return writePairs(w, s, gone) })
}

// writeIVF writes the rows of a modality.
func writeIVF(ctx context.Context, s *segment.Segment, m segment.Modality, path string, gone func(schemas.PairID) bool) error {
	var centroids, rows []float32
	for i := range s.Lists {
		centroids = s.Centroids(m).Row(i, centroids)
	}
	ivf, err := faiss.NewIVF(centroids, s.Dim, segment.Visits(s.Lists, s.Rows))
	if err != nil {
		return err
	}
	var ids []int64
	for list := range s.Lists {
		rows, ids = rows[:0], ids[:0]
		for row, to := s.List(list); row < to; row++ {
			if !gone(s.Pair(row)) {
				rows, ids = s.Codes(m).Row(row, rows), append(ids, int64(row))
			}
		}
		if err := errors.Join(ivf.Add(list, rows, ids), ctx.Err()); err != nil {
			return err
		}
	}
	file, err := atomicfile.Create(path, 0o644)
	if err != nil {
		return err
	}
	if err := ivf.Write(file.Name()); err != nil {
		return errors.Join(err, file.Abort())
	}
	return file.Commit()
}

// faissPair is a line of the file of pairs.
type faissPair struct {
	Pair     string `json:"pair"`
	Position int    `json:"position"`
	Image    string `json:"image,omitempty"` // address of the object that holds it
	Offset   int64  `json:"offset,omitempty"`
	Size     int64  `json:"size,omitempty"`
}

func writePairs(w io.Writer, s *segment.Segment, gone func(schemas.PairID) bool) error {
	out := bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	for row := range s.Rows {
		var line *faissPair
		if id := s.Pair(row); !gone(id) {
			line = &faissPair{Pair: id.String(), Position: s.Position(row)}
			if ref, ok := s.Ref(row); ok {
				line.Image, line.Offset, line.Size = ref.URI, ref.Offset, ref.Size
			}
		}
		if err := lines.Encode(line); err != nil {
			return err
		}
	}
	return out.Flush()
}
