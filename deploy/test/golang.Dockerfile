# Stands in for golang:1.26-bookworm: Debian 12 with this machine's Go, which trusts whom this machine trusts. It brings
# the modules and compiled packages that this machine has (see gocache), where deploy/Dockerfile looks for neither: its
# cache mounts are elsewhere. A compiled package counts only for sources in the same folder.
FROM debian:bookworm-slim
COPY go /usr/local/go
COPY modules /opt/modules
COPY build /opt/build
COPY ca-certificates.crt /usr/local/share/machine.crt
ARG GOMODCACHE
ENV PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin GOPATH=/go GOTOOLCHAIN=local \
    GOMODCACHE=${GOMODCACHE} GOCACHE=/opt/build GOPROXY=file:///opt/modules SSL_CERT_FILE=/usr/local/share/machine.crt
