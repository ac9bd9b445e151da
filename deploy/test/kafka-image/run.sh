#!/bin/bash
# What apache/kafka's start script does: KAFKA_SOME_SETTING=value becomes some.setting=value in server.properties
# (one underscore is a dot, two are an underscore, three a hyphen), the data folder is formatted once, Kafka starts.
set -eu
properties=/opt/kafka/config/server.properties
: "${CLUSTER_ID:=5L6g3nShT-eMCtK--X86sw}" "${KAFKA_HEAP_OPTS:=-Xmx1G -Xms1G}"

: >"$properties"
while IFS='=' read -r -d '' name value; do
	case $name in
	KAFKA_HEAP_OPTS | KAFKA_OPTS | KAFKA_JVM_PERFORMANCE_OPTS | KAFKA_LOG4J*) continue ;;
	KAFKA_*) ;;
	*) continue ;;
	esac
	key=$(sed 's/___/-/g; s/__/\x01/g; s/_/./g; s/\x01/_/g' <<<"${name#KAFKA_}" | tr '[:upper:]' '[:lower:]')
	printf '%s=%s\n' "$key" "$value" >>"$properties"
done < <(env -0)

java() { command java -Dlog4j2.configurationFile=/opt/kafka/config/log4j2.properties -cp '/opt/kafka/libs/*' "$@"; }
java -Xmx128m kafka.tools.StorageTool format --ignore-formatted --cluster-id "$CLUSTER_ID" --config "$properties" >/dev/null
# shellcheck disable=SC2086 # the options are words
exec java $KAFKA_HEAP_OPTS -Dlog4j2.configurationFile=/opt/kafka/config/log4j2.properties -cp '/opt/kafka/libs/*' \
	kafka.Kafka "$properties"
