# Stands in for golang:1.26-bookworm: Debian 12 with this machine's Go, which trusts whom this machine trusts.
FROM debian:bookworm-slim
COPY go /usr/local/go
COPY ca-certificates.crt /usr/local/share/machine.crt
ENV PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin GOPATH=/go GOTOOLCHAIN=local \
    SSL_CERT_FILE=/usr/local/share/machine.crt
