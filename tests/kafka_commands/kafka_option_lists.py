"""The long options of Apache Kafka 4.3.1's commands, as their --help lists them."""

OPTIONS: dict[str, frozenset[str]] = {
    name: frozenset(listed.split())
    for name, listed in {
        "topics": (
            "alter at-min-isr-partitions bootstrap-server command-config config create delete "
            "delete-config describe exclude-internal help if-exists if-not-exists list "
            "partition-size-limit-per-response partitions replica-assignment replication-factor "
            "topic topic-id topics-with-overrides unavailable-partitions "
            "under-min-isr-partitions under-replicated-partitions version "
        ),
        "configs": (
            "add-config add-config-file all alter bootstrap-controller bootstrap-server broker "
            "broker-defaults broker-logger client client-defaults client-metrics command-config "
            "delete-config describe entity-default entity-name entity-type group help ip "
            "ip-defaults topic user user-defaults version "
        ),
        "console-producer": (
            "batch-size bootstrap-server command-config command-property compression-codec help "
            "line-reader max-block-ms max-memory-bytes max-partition-memory-bytes "
            "message-send-max-retries metadata-expiry-ms producer-property producer.config "
            "property reader-config reader-property request-required-acks request-timeout-ms "
            "retry-backoff-ms socket-buffer-size sync timeout topic version "
        ),
        "console-consumer": (
            "bootstrap-server command-config command-property consumer-property consumer.config "
            "enable-systest-events formatter formatter-config formatter-property from-beginning "
            "group help include isolation-level key-deserializer max-messages offset partition "
            "property skip-message-on-error timeout-ms topic value-deserializer version "
        ),
        "consumer-groups": (
            "all-groups all-topics bootstrap-server by-duration command-config delete "
            "delete-offsets describe dry-run execute export from-file group help list members "
            "offsets reset-offsets shift-by state timeout to-current to-datetime to-earliest "
            "to-latest to-offset topic type validate-regex verbose version "
        ),
        "get-offsets": (
            "bootstrap-server command-config exclude-internal-topics help partitions time topic "
            "topic-partitions version "
        ),
        "delete-records": ("bootstrap-server command-config help offset-json-file version "),
        "log-dirs": (
            "bootstrap-server broker-list command-config describe help topic-list version "
        ),
        "consumer-perf-test": (
            "bootstrap-server command-config command-property consumer.config date-format "
            "fetch-size from-latest group help hide-header include messages num-records "
            "print-metrics reporting-interval show-detailed-stats socket-buffer-size timeout "
            "topic version "
        ),
        "leader-election": (
            "admin.config all-topic-partitions bootstrap-server command-config election-type "
            "help partition path-to-json-file topic version "
        ),
        "reassign-partitions": (
            "additional bootstrap-controller bootstrap-server broker-list cancel command-config "
            "disable-rack-aware disallow-replication-factor-change execute generate help list "
            "preserve-throttles reassignment-json-file replica-alter-log-dirs-throttle throttle "
            "timeout topics-to-move-json-file verify version "
        ),
        "acls": (
            "add allow-host allow-principal bootstrap-controller bootstrap-server cluster "
            "command-config consumer delegation-token deny-host deny-principal force group help "
            "idempotent list operation principal producer remove resource-pattern-type topic "
            "transactional-id user-principal version "
        ),
        "dump-log": (
            "cluster-metadata-decoder deep-iteration files help index-sanity-check "
            "key-decoder-class max-bytes max-message-size offsets-decoder print-data-log "
            "remote-log-metadata-decoder share-group-state-decoder skip-record-metadata "
            "transaction-log-decoder value-decoder-class verify-index-only version "
        ),
        "broker-api-versions": ("bootstrap-server command-config help version "),
    }.items()
}
