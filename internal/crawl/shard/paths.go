package shard

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/crawl/portion"
	"github.com/pairstream/pairstream/schemas"
)

// Tars lists the tars that paths on the file system name, in order: a file is one, whatever it is called; a folder
// stands for the files *.tar in it and below it, in lexical order. Paths come back absolute and without symbolic links,
// as references name them. Tars skips unreadable files below a folder; [Scan] reports them.
func Tars(paths []string) ([]string, error) {
	tars, _, err := findFiles(paths)
	return tars, err
}

// findFiles is Tars, and also returns a problem for everything below a folder that cannot be read.
func findFiles(paths []string) (tars []string, lost []Problem, err error) {
	for _, p := range paths {
		found, more, err := tarsOf(LocalPath(p))
		if err != nil {
			return nil, nil, fmt.Errorf("looking for tars in %s: %w", p, err)
		}
		tars, lost = append(tars, found...), append(lost, more...)
	}
	return tars, lost, nil
}

// LocalPath returns the path of a file URL, and any other path as it is.
func LocalPath(p string) string {
	if u, err := url.Parse(p); err == nil && u.Scheme == "file" && localHost(u.Host) == "" && u.Path != "" {
		return filepath.FromSlash(u.Path)
	}
	return p
}

func tarsOf(path string) (tars []string, lost []Problem, err error) {
	path, err = realPath(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.IsDir() {
		real, err := realTar(path)
		return []string{real}, nil, err
	}
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && p == path:
			return err
		case err != nil:
			lost = append(lost, lostAt(FileURI(p), err)) // a folder below
		case d.IsDir():
		case isCompressed(p):
			lost = append(lost, lostAt(FileURI(p), errCompressed))
		case strings.EqualFold(filepath.Ext(p), ".tar"):
			if real, err := realTar(p); err != nil {
				lost = append(lost, lostAt(FileURI(p), err))
			} else {
				tars = append(tars, real)
			}
		}
		return nil
	})
	if err == nil && len(tars) == 0 {
		err = fmt.Errorf("%w that can be read: files of a folder go into one with `tar --sort=name -cf data.tar -C FOLDER .`", ErrNoTars)
		if len(lost) > 0 {
			err = fmt.Errorf("%w that can be read; %s: %s", ErrNoTars, lost[0].URI, lost[0].Detail)
		}
	}
	return tars, lost, err
}

// realTar resolves the path of a tar and checks that references to it can be written.
func realTar(path string) (string, error) {
	real, err := realPath(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is no regular file", real)
	}
	if n := len(FileURI(real)); n > schemas.MaxURIBytes {
		return "", fmt.Errorf("the reference to %s would have %d bytes, at most %d are allowed", real, n, schemas.MaxURIBytes)
	}
	return real, nil
}

// FileURI returns the file:// form of an absolute path.
func FileURI(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}

// Roots returns the bucket roots that cover the images of a scan of paths: the folders of tars and of a list's images,
// without nested ones, and the roots in stores.
func Roots(paths []string) ([]string, error) {
	var local, dirs, out []string
	for _, p := range paths {
		if l, err := listAt(p); l != nil || err != nil {
			if err != nil {
				return nil, fmt.Errorf("the images of %s: %w", p, err)
			}
			dirs = append(dirs, l.images)
			continue
		}
		p, _, err := portion.Cut(p)
		if err != nil {
			return nil, err
		}
		if !IsRemote(p) {
			local = append(local, p)
			continue
		}
		root, _, err := remotePlace(p)
		if err != nil {
			return nil, fmt.Errorf("the place %s: %w", p, err)
		}
		out = append(out, root.String())
	}
	tars, err := Tars(local)
	if err != nil {
		return nil, err
	}
	for _, t := range tars {
		dirs = append(dirs, filepath.Dir(t))
	}
	slices.Sort(dirs) // a folder comes before those inside it
	var kept []string
	for _, d := range slices.Compact(dirs) {
		inside := func(outer string) bool { return strings.HasPrefix(d, strings.TrimSuffix(outer, "/")+"/") }
		if !slices.ContainsFunc(kept, inside) {
			kept, out = append(kept, d), append(out, FileURI(d))
		}
	}
	return out, nil
}

// WithOptions returns paths as [Scan] takes them. A URL without options, such as s3://bucket/prefix/, takes those of
// the root that it lies under, so the endpoint and region of a store are written down once.
func WithOptions(paths, roots []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = withOptions(p, roots)
	}
	return out
}

func withOptions(p string, roots []string) string {
	rest, share, cutErr := portion.Cut(p)
	place, err := url.Parse(rest)
	if !IsRemote(p) || errors.Join(cutErr, err) != nil || place.RawQuery != "" {
		return p // what opens it says what is wrong
	}
	longest := -1
	for _, raw := range roots {
		root, err := url.Parse(strings.TrimSpace(raw))
		if err != nil || root.Scheme != place.Scheme || root.Host != place.Host {
			continue // opening the root refuses it when it is no URL
		}
		prefix := strings.Trim(root.Path, "/") + "/"
		if inside := prefix == "/" || strings.HasPrefix(strings.Trim(place.Path, "/")+"/", prefix); inside && len(prefix) > longest {
			longest, place.RawQuery = len(prefix), root.RawQuery
		}
	}
	if options := strings.TrimPrefix(share.String(), "?"); options != "" {
		place.RawQuery = strings.TrimPrefix(place.RawQuery+"&"+options, "&")
	}
	return place.String()
}
