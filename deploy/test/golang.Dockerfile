# Stands in for golang:1.26-bookworm: Debian 12 and the Go that is the build context.
FROM debian:bookworm-slim
COPY . /usr/local/go
ENV PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin GOPATH=/go GOTOOLCHAIN=local
