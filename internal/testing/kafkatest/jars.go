package kafkatest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

const (
	minJava        = 17
	installTimeout = 10 * time.Minute // a download, and a server on a busy machine
)

// installation is what a machine needs to start a Kafka server.
type installation struct {
	java    string // the program
	jars    string // folder of Kafka's jars
	logging string // log4j2 configuration
	classes string // Java's option for an archive of loaded classes; empty: none
}

// install finds Java and Kafka's jars. The first call on a machine resolves the jars with Maven into bin/kafka of the
// repository, and archives the classes of a server. Later calls use what is there.
func install(ctx context.Context) (installation, error) {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	root, err := repositoryRoot()
	if err != nil {
		return installation{}, err
	}
	java, err := findJava(ctx)
	if err != nil {
		return installation{}, err
	}
	jars, err := resolveJars(ctx, root)
	if err != nil {
		return installation{}, err
	}
	found := installation{java: java, jars: jars, logging: filepath.Join(root, "deploy", "kafka", "log4j2.properties")}
	return found.share(ctx)
}

func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("looking for the repository: %w", err)
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "deploy", "kafka", "pom.xml")); err == nil {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("deploy/kafka/pom.xml is in no folder above %s", dir)
		}
	}
}

var javaVersion = regexp.MustCompile(`version "(?:1\.)?(\d+)`)

func findJava(ctx context.Context) (string, error) {
	name := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		name = filepath.Join(home, "bin", "java")
	}
	const advice = "Kafka needs Java 17 or later (Debian: openjdk-17-jre-headless)"
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", advice, err)
	}
	out, err := exec.CommandContext(ctx, path, "-version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("running %s -version: %w: %s", path, err, bytes.TrimSpace(out))
	}
	found := javaVersion.FindSubmatch(out)
	if found == nil {
		return "", fmt.Errorf("%s; %s -version says %q", advice, path, bytes.TrimSpace(out))
	}
	if version, err := strconv.Atoi(string(found[1])); err != nil || version < minJava {
		return "", fmt.Errorf("%s; %s is version %s", advice, path, found[1])
	}
	return path, nil
}

// resolveJars returns the folder of the jars that pom.xml asks for. Its name holds the pom's hash and it appears by a
// rename, so an existing folder is complete and current. A lock keeps the test processes of several packages from
// running Maven at once.
func resolveJars(ctx context.Context, root string) (jars string, err error) {
	pomPath := filepath.Join(root, "deploy", "kafka", "pom.xml")
	pom, err := os.ReadFile(pomPath)
	if err != nil {
		return "", fmt.Errorf("reading Kafka's pom: %w", err)
	}
	hash := sha256.Sum256(pom)
	cache := filepath.Join(root, "bin", "kafka")
	jars = filepath.Join(cache, hex.EncodeToString(hash[:8]))
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("making the folder of Kafka's jars: %w", err)
	}
	unlock, err := lockFile(filepath.Join(cache, "lock"))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if _, err := os.Stat(jars); err == nil {
		return jars, nil
	}
	return jars, runMaven(ctx, pomPath, cache, jars)
}

func runMaven(ctx context.Context, pom, cache, jars string) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return fmt.Errorf("resolving Kafka's jars needs Maven (Debian: maven): %w", err)
	}
	partial, err := os.MkdirTemp(cache, "partial-")
	if err != nil {
		return fmt.Errorf("making the folder of Kafka's jars: %w", err)
	}
	out, err := exec.CommandContext(ctx, mvn, "-q", "-B", "-Dstyle.color=never", "-f", pom, "dependency:copy-dependencies",
		"-DoutputDirectory="+partial).CombinedOutput()
	if err != nil {
		return errors.Join(fmt.Errorf("resolving Kafka's jars with Maven: %w: %s", err, bytes.TrimSpace(out)), os.RemoveAll(partial))
	}
	if err := os.Chmod(partial, 0o755); err != nil {
		return fmt.Errorf("making the folder of Kafka's jars: %w", err)
	}
	if err := os.Rename(partial, jars); err != nil {
		return fmt.Errorf("moving Kafka's jars into place: %w", err)
	}
	return nil
}
