package batches

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/base/rng"
)

// python is `python -m pairstream strategy` with the working folder last on the path: a json.py there replaces no module of
// Python's own.
const python = "import os, runpy, sys; sys.path = [p for p in sys.path if p] + [os.getcwd()]; " +
	"runpy.run_module('pairstream', run_name='__main__', alter_sys=True)"

// planner returns what asks the function of --strategy for an order; nil: there is none.
func (p *planning) planner() grouper.Planner {
	if p.settings.Grouper.Options().Strategy != grouper.StrategyOwn {
		return nil
	}
	return p.ask
}

// callFunction runs Python with the function and returns its output.
func (p *planning) callFunction(ctx context.Context, args ...string) ([]byte, error) {
	name := p.settings.Grouper.Options().Function
	program := cmp.Or(os.Getenv("PAIRSTREAM_PYTHON"), "python3")
	child := exec.CommandContext(ctx, program, append([]string{"-c", python, "strategy", "--end-with-input", name}, args...)...)
	var out, said bytes.Buffer
	child.Stdout, child.Stderr = &out, &said
	alive, err := child.StdinPipe() // Python ends with this process, however that ends
	if err == nil {
		err = errors.Join(child.Run(), closed(alive))
	}
	switch {
	case err == nil:
		return out.Bytes(), nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist):
		// Not wrapped: the log takes an error of the system for one of the network, and would try again for ever.
		return nil, fmt.Errorf("--strategy %s needs Python: %s: name one that has the package pairstream in PAIRSTREAM_PYTHON", name, err.Error())
	case strings.Contains(said.String(), "No module named pairstream"):
		return nil, fmt.Errorf("--strategy %s: %s has no package pairstream: install the wheel, or name a Python that has it in PAIRSTREAM_PYTHON", name, program)
	}
	return nil, fmt.Errorf("--strategy %s: %w:\n%s", name, err, strings.TrimSpace(said.String()))
}

// functionDigest returns the SHA-256 of the module of --strategy, and refuses one that has no such function.
func (p *planning) functionDigest(ctx context.Context) (string, error) {
	if p.planner() == nil {
		return "", nil
	}
	out, err := p.callFunction(ctx)
	printed := strings.TrimSpace(string(out)) // also by the module, while Python imports it
	return printed[strings.LastIndex(printed, "\n")+1:], err
}

// These are the files through which a function gets the pairs of a group, and returns their order.
const (
	aboutFile = "about.json"
	orderFile = "order.i32"
	i2tFile   = "i2t.i32"
	t2iFile   = "t2i.i32"
)

// groupAbout is the file about.json: the shapes of the arrays beside it, and the epoch that is planned.
type groupAbout struct {
	Pairs      int    `json:"pairs"`
	Dim        int    `json:"dim"`         // of the encoder's vectors
	LearnerDim int    `json:"learner_dim"` // of the features of the model in training; 0: there are none
	K1         int    `json:"k1"`
	BatchSize  int    `json:"batch_size"`
	Candidates int    `json:"candidates"`
	Epoch      int    `json:"epoch"`
	Group      string `json:"group"`
	Seed       uint64 `json:"seed"`
}

// ask asks the function of --strategy. The answer stays in the folder of the run, so that a run that was interrupted
// goes on with the same order.
func (p *planning) ask(ctx context.Context, in grouper.Pairs) (c grouper.Chosen, err error) {
	dir := filepath.Join(p.work(), "strategy", fmt.Sprintf("%d-%d-%d", in.Group.Lane, in.Group.Seq, in.Epoch))
	if _, err := os.Stat(filepath.Join(dir, orderFile)); errors.Is(err, fs.ErrNotExist) {
		if err := writePairs(dir, in); err != nil {
			return c, err
		}
		printed, err := p.callFunction(ctx, dir)
		if err == nil {
			_, err = os.Stderr.Write(printed)
		}
		if err != nil {
			return c, err
		}
	}
	c.Order, err = readPositions(filepath.Join(dir, orderFile))
	if errors.Is(err, fs.ErrNotExist) { // not wrapped, as in callFunction
		return c, fmt.Errorf("--strategy %s ended its process and left no order", p.settings.Grouper.Options().Function)
	} else if err != nil {
		return c, err
	}
	if c.I2T, err = readPositions(filepath.Join(dir, i2tFile)); err == nil {
		c.T2I, err = readPositions(filepath.Join(dir, t2iFile))
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil // the function leaves the candidates to pairstream
	}
	if err == nil {
		err = c.Validate(in)
	}
	if err != nil { // the next run asks again
		return c, errors.Join(fmt.Errorf("--strategy %s: %w", p.settings.Grouper.Options().Function, err), os.Remove(filepath.Join(dir, orderFile)))
	}
	return c, removeArrays(dir)
}

// removeArrays removes what a function has read: an epoch of five million pairs takes 10 GB.
func removeArrays(dir string) error {
	arrays, err := filepath.Glob(filepath.Join(dir, "*.f32"))
	for _, file := range arrays {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// ordered reports whether an order is recorded. Until then another version of the function may take over.
func (p *planning) ordered() bool {
	found, err := filepath.Glob(filepath.Join(p.work(), "strategy", "*", orderFile))
	return err != nil || len(found) > 0
}

// closed closes a pipe that the end of its reader may have closed.
func closed(pipe io.Closer) error {
	if err := pipe.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// writePairs writes the pairs of a group into a folder.
func writePairs(dir string, in grouper.Pairs) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	about := groupAbout{
		Pairs: len(in.Image), Dim: in.Encoder.Dim(), K1: in.K1, BatchSize: in.BatchSize, Candidates: in.Candidates, Epoch: in.Epoch,
		Group: in.Group.String(), Seed: rng.New(in.Seed, "strategy", int64(in.Group.Lane), in.Group.Seq, int64(in.Epoch)).Uint64(),
	}
	err := writeFeatures(dir, "", in.Encoder, len(in.Image))
	if in.Learner != nil {
		about.LearnerDim = in.Learner.Dim()
		err = errors.Join(err, writeFeatures(dir, "learner_", in.Learner, len(in.Image)))
	}
	for name, values := range map[string][]int32{"image": in.Image, "cluster": in.Cluster, "neighbors": in.Similar} {
		write := func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, values) }
		err = errors.Join(err, atomicfile.Write(filepath.Join(dir, name+".i32"), 0o644, write))
	}
	return errors.Join(err, writeJSON(filepath.Join(dir, aboutFile), about))
}

// writeFeatures writes images and texts as two arrays [pairs, dim] of float32.
func writeFeatures(dir, prefix string, f grouper.Features, pairs int) error {
	v, t := make([]float32, f.Dim()), make([]float32, f.Dim())
	return atomicfile.Write(filepath.Join(dir, prefix+"v.f32"), 0o644, func(images io.Writer) error {
		return atomicfile.Write(filepath.Join(dir, prefix+"t.f32"), 0o644, func(texts io.Writer) error {
			for p := range int32(pairs) {
				f.Read(p, v, t)
				if err := errors.Join(binary.Write(images, binary.LittleEndian, v), binary.Write(texts, binary.LittleEndian, t)); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// readPositions reads an array of int32.
func readPositions(path string) ([]int32, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := make([]int32, len(raw)/4)
	_, err = binary.Decode(raw, binary.LittleEndian, out)
	if len(raw)%4 != 0 {
		err = errors.Join(err, fmt.Errorf("it has %d bytes, want a multiple of 4", len(raw)))
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return out, nil
}
