#!/bin/sh
# As Spark's own image: `executor` starts an executor with what Spark put into the pod's environment, `driver` a driver
# (deploy_mode: cluster); all else is a command. Process 1 is init.py, which passes signals on and reaps.
set -eu
if [ $$ = 1 ]; then
    exec python -I -S "$(dirname "$0")/init.py" sh "$0" "$@"
fi
if [ "${1:-}" = driver ]; then
    shift
    exec "$SPARK_HOME/bin/spark-submit" --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
        --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" --deploy-mode client "$@"
fi
if [ "${1:-}" != executor ]; then
    exec "$@"
fi
set --
number=0
while eval "option=\${SPARK_JAVA_OPT_$number:-}" && [ -n "$option" ]; do
    set -- "$@" "$option"
    number=$((number + 1))
done
exec "$JAVA_HOME/bin/java" "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CLASSPATH:-}:$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
