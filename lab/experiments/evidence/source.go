package evidence

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"strings"
)

// Source says from what a result was made.
type Source struct {
	Revision string `json:"revision"`        // commit
	Clean    bool   `json:"clean,omitempty"` // no file of the packages differed from it
	// Packages are git's digests of the folders whose code is measured, by folder.
	Packages map[string]string `json:"packages,omitempty"`
}

// Folders returns the folders whose code the experiments measure.
func Folders() []string {
	return []string{
		"discriminator", "encoder", "grouper", "indexer", "internal/base", "internal/content", "internal/crawl",
		"internal/demo", "internal/model", "internal/neighbors", "lab/experiments", "schemas", "trainer",
	}
}

// git returns what git says in a folder of the working tree.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	said, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(said)), nil
}

// ReadSource asks git about the working tree around dir; empty: the folder of the process.
func ReadSource(ctx context.Context, dir string) (s Source, err error) {
	if s.Revision, err = git(ctx, dir, "rev-parse", "--short", "HEAD"); err != nil {
		return s, fmt.Errorf("reading what the results are made of: run this in a clone of the repository: %w", err)
	}
	changed, err := git(ctx, dir, append([]string{"status", "--porcelain", "--", ":(top)go.mod", ":(top,exclude)lab/experiments/results"}, top(Folders())...)...)
	if err != nil {
		return s, err
	}
	s.Clean, s.Packages = changed == "", map[string]string{}
	for _, folder := range Folders() {
		if s.Packages[folder], err = git(ctx, dir, "rev-parse", "--short", "HEAD:"+folder); err != nil {
			return s, err
		}
	}
	return s, nil
}

// top returns folders as they are called from anywhere in a working tree.
func top(folders []string) (paths []string) {
	for _, f := range folders {
		paths = append(paths, ":(top)"+f)
	}
	return paths
}

// same reports whether two sources are one. Trees with changes are never the same, as nothing says what the changes
// were.
func (s Source) same(o Source) bool {
	return s.Revision == o.Revision && s.Clean && o.Clean && maps.Equal(s.Packages, o.Packages)
}

// Since returns the folders that have changed since a source, in a working tree. It fails when the source's revision is
// not in the history of HEAD, or has other packages than the source says.
func (s Source) Since(ctx context.Context, dir string) (changed []string, err error) {
	if _, err := git(ctx, dir, "merge-base", "--is-ancestor", s.Revision, "HEAD"); err != nil {
		return nil, fmt.Errorf("revision %s is not in the history: run the experiment again at a commit: %w", s.Revision, err)
	}
	for _, folder := range Folders() {
		was, recorded := s.Packages[folder]
		if recorded {
			then, err := git(ctx, dir, "rev-parse", s.Revision+":"+folder)
			if err != nil || !strings.HasPrefix(then, was) {
				return nil, fmt.Errorf("%s is %q at revision %s, and the result says %q: run the experiment again (%w)", folder, then, s.Revision, was, err)
			}
		}
		if _, err := git(ctx, dir, "diff", "--quiet", s.Revision, "HEAD", "--", ":(top)"+folder, ":(top,exclude)lab/experiments/results"); err != nil {
			changed = append(changed, folder)
		}
	}
	return changed, nil
}

// sum returns the digest of a result, without the digest that it carries.
func (r *Result) sum() (string, error) {
	c := *r
	c.Digest = ""
	raw, err := json.Marshal(&c)
	if err != nil {
		return "", fmt.Errorf("encoding the result of %s: %w", r.Experiment, err)
	}
	h := sha256.Sum256(raw)
	return hex.EncodeToString(h[:8]), nil
}
